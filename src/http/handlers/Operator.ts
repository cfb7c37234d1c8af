/** Handlers of the group `operator`. Every change is logged with the operator's token, by its hash. */
import { Context, Duration, Effect, Option, Schema } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { encode, join } from "../../domain/OpaqueJson.ts"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { TaskNotFound } from "../../domain/TaskErrors.ts"
import { now } from "../../domain/Timestamp.ts"
import { ClusterNodes, type Wanted } from "../../services/operations/ClusterNodes.ts"
import { OverviewReader } from "../../services/operations/Overview.ts"
import { Operators, type Redelivered } from "../../services/Operators.ts"
import { OperatorStore, type Page, pageOf } from "../../services/store/OperatorStore.ts"
import { isStatementTimeout } from "../../services/store/Queries.ts"
import { Tasks } from "../../services/Tasks.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { Conflict, Forbidden, NotFound, ServiceUnavailable } from "../contract/Errors.ts"
import { CurrentOperator } from "../contract/Middleware.ts"
import { redeliveries } from "../contract/OperatorSchemas.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { failWith } from "./ErrorResponses.ts"
import * as Query from "./OperatorQuery.ts"
import * as Views from "./OperatorViews.ts"
import * as TokenBodies from "./TokenBodies.ts"

/** Whether operators may read what tasks say. */
export const ShowsContent = Context.Reference("async-task-service/http/handlers/Operator/ShowsContent", {
  defaultValue: () => false
})

/** Events that a task shows: the newest. */
const listedEvents = 200

const outageOf = (error: StoreUnavailable) =>
  new ServiceUnavailable({
    message: isStatementTimeout(error)
      ? "The search took longer than 2 seconds. Narrow the filter or the range."
      : error.message
  })

/** A search that waits for a connection longer than this ends: other operators use both. */
const patience = Duration.seconds(10)
const tooBusy = new ServiceUnavailable({ message: "Other operators use all connections. Try again soon." })

const isOutage = <E>(error: E): error is Extract<E, StoreUnavailable> => error instanceof StoreUnavailable

const orRefuse = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.mapError(effect, (error) => isOutage(error) ? outageOf(error) : error).pipe(
    Effect.timeoutOrElse({ duration: patience, orElse: () => Effect.fail(tooBusy) })
  )

const taskErrors = { TaskNotFound: failWith(NotFound) }

const pageView = <Row, View>({ isComplete, next, rows }: Page<Row>, order: string, view: (row: Row) => View) => ({
  data: rows.map(view),
  next: Query.cursorOf(order, next),
  complete: isComplete
})

const viewRedelivered = ({ enqueued, left, matched, needsSecret }: Redelivered) => ({
  matched,
  owed: enqueued,
  needs_secret: needsSecret,
  left
})

/** Logs what an operator did. */
const audit = (message: string, details: Readonly<Record<string, unknown>> = {}) =>
  Effect.flatMap(
    CurrentOperator,
    ({ token }) => Effect.annotateLogs(Effect.logInfo(message), { operator: token, ...details })
  )

const makeTaskReads = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  const showsContent = yield* ShowsContent

  const find = <A>(uuid: string, read: (uuid: TaskId) => Effect.Effect<Option.Option<A>, StoreUnavailable>) =>
    Schema.is(TaskId)(uuid)
      ? Effect.flatMap(read(uuid), Option.match({ onNone: () => new TaskNotFound({}), onSome: Effect.succeed }))
      : Effect.fail(new TaskNotFound({}))

  return {
    task: Effect.fnUntraced(function*(uuid: string) {
      const detail = yield* find(uuid, store.task)
      const { revision, uuid: id } = detail.head
      const events = yield* store.reads.eventsAfter(id, Math.max(-1, revision - listedEvents), listedEvents)
      return Views.taskDetail(detail, events, yield* store.webhooks.ofTask(id), yield* nodes.all)
    }, Effect.catchTags(taskErrors)),
    content: Effect.fnUntraced(function*(uuid: string) {
      const { role } = yield* CurrentOperator
      if (role !== "full" || !showsContent) {
        return yield* new Forbidden({
          message: "The content is shown only with OPERATOR_CONTENT=on and an internal token."
        })
      }
      const task = yield* find(uuid, store.reads.get)
      yield* audit("an operator read the content of a task", { taskId: task.uuid, sub: task.sub })
      // The turn is JSON already, and may be large.
      const calls = JSON.stringify(task.pendingToolCalls ?? [])
      const content = join([`{"turn":`, task.turn ?? "null", `,"pending_tool_calls":${calls}}`])
      return HttpServerResponse.uint8Array(encode(content), { contentType: "application/json" })
    }, Effect.catchTags(taskErrors))
  }
})

const makeReads = Effect.gen(function*() {
  const store = yield* OperatorStore
  const nodes = yield* ClusterNodes
  const operators = yield* Operators
  const overview = yield* OverviewReader

  return {
    overview: Effect.map(overview.read, Views.overview),
    tasks: Effect.gen(function*() {
      const { order, search } = yield* Query.tasks
      return pageView(yield* store.tasks(search), order, Views.task)
    }),
    ...(yield* makeTaskReads),
    errors: Effect.gen(function*() {
      const { failures, groups, isComplete } = yield* operators.errors(yield* Query.range)
      return {
        window: { failures, complete: isComplete },
        groups: groups.map(Views.errorGroup)
      }
    }),
    clocks: Effect.gen(function*() {
      const limit = yield* Query.clockLimit
      const at = yield* now
      const [tasks, stops] = yield* Effect.all([store.clocks(limit), store.stops(limit)])
      return { tasks: tasks.map((due) => Views.clock(due, at)), stops: stops.map((due) => Views.stop(due, at)) }
    }),
    history: Effect.gen(function*() {
      const { from, periods, step } = yield* Query.history
      return Views.history(yield* store.history.series(from, step, periods), from, step, periods)
    }),
    origins: Effect.gen(function*() {
      const { isComplete, origins } = yield* store.origins(yield* Query.range)
      return { data: origins.map(Views.origin), complete: isComplete }
    }),
    deliveries: Effect.gen(function*() {
      const { order, search } = yield* Query.deliveries
      return pageView(yield* store.deliveries(search), order, Views.delivery)
    }),
    cluster: Effect.map(nodes.all, Views.cluster),
    revocations: Effect.gen(function*() {
      const { after, limit, order } = yield* Query.revocations
      const found = pageOf(yield* store.revocations.list(after, limit + 1), limit, undefined)
      return pageView(found, order, Views.revocation)
    })
  }
})

const makeChanges = Effect.gen(function*() {
  const tasks = yield* Tasks
  const operators = yield* Operators
  const nodes = yield* ClusterNodes
  const verifier = yield* TokenVerifier
  const { read } = yield* BodyReader

  const redeliver = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    const { body: { dry_run: isDry, filter, ids, limit } } = yield* read("redeliverMany", request)
    if (ids) return yield* operators.redeliver(ids)
    const { error, origin, ...moments } = filter ?? {}
    const range = yield* Query.rangeOf(moments, "filter.")
    const wanted = isDry === true ? 0 : limit ?? redeliveries.matching
    return yield* operators.redeliverFailed({ ...range, origin: origin ?? null, error: error ?? null }, wanted)
  })

  return {
    cancel: Effect.fnUntraced(function*(uuid: string, request: HttpServerRequest.HttpServerRequest) {
      const task = yield* tasks.findHead(uuid)
      const { body: { reason } } = yield* read("cancel", request)
      yield* tasks.withdraw(task, reason)
      yield* audit("an operator canceled a task", { taskId: task.uuid })
      return HttpServerResponse.jsonUnsafe({ uuid: task.uuid, status: "canceled" })
    }, Effect.catchTags({ ...taskErrors, TaskHasEnded: failWith(Conflict) })),
    redeliver: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const outcome = viewRedelivered(yield* redeliver(request))
      if (outcome.owed > 0) yield* audit("an operator redelivered webhooks", { count: outcome.owed })
      return HttpServerResponse.jsonUnsafe(outcome)
    }),
    move: Effect.fnUntraced(function*(instance: string, wanted: Wanted) {
      if (!(yield* nodes.request(instance, wanted))) {
        return yield* new NotFound({ message: "No node that reports has this instance." })
      }
      yield* audit(`an operator wants a node to be ${wanted === "drained" ? "drained" : "taken in"}`, { instance })
      return { instance, wanted }
    }),
    revoke: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { body } = yield* read("revokeTokens", request)
      yield* tasks.revoke(yield* TokenBodies.revocationOf(verifier, body))
      yield* audit("an operator revoked tokens", { sub: body.sub ?? null, jti: body.jti ?? null })
      return HttpServerResponse.empty({ status: 204 })
    })
  }
})

export const layer = HttpApiBuilder.group(
  Api,
  "operator",
  Effect.fn(function*(handlers) {
    const reads = yield* makeReads
    const changes = yield* makeChanges
    return handlers
      .handle("overview", () => orRefuse(reads.overview))
      .handle("tasks", () => orRefuse(reads.tasks))
      .handle("task", ({ params }) => orRefuse(reads.task(params.uuid)))
      .handleRaw("content", ({ params }) => orRefuse(reads.content(params.uuid)))
      .handleRaw("cancel", ({ params, request }) => orRefuse(changes.cancel(params.uuid, request)))
      .handle("errors", () => orRefuse(reads.errors))
      .handle("clocks", () => orRefuse(reads.clocks))
      .handle("history", () => orRefuse(reads.history))
      .handle("origins", () => orRefuse(reads.origins))
      .handle("deliveries", () => orRefuse(reads.deliveries))
      .handleRaw("redeliver", ({ request }) => orRefuse(changes.redeliver(request)))
      .handle("cluster", () => orRefuse(reads.cluster))
      .handle("drain", ({ params }) => orRefuse(changes.move(params.instance, "drained")))
      .handle("takeIn", ({ params }) => orRefuse(changes.move(params.instance, "taken_in")))
      .handle("revocations", () => orRefuse(reads.revocations))
      .handleRaw("revoke", ({ request }) => orRefuse(changes.revoke(request)))
  })
)
