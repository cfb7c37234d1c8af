/** Handlers of `contract/rpc/RpcTasks`: REST's use cases and rules, on behalf of a user. */
import { Effect, Layer, Record, Stream } from "effect"
import { Digest } from "effect/crypto"
import * as TaskView from "../../../domain/TaskView.ts"
import { TaskRequests } from "../../../services/TaskRequests.ts"
import * as Services from "../../../services/Tasks.ts"
import { TaskWatch } from "../../../services/TaskWatch.ts"
import { TokenRevocations } from "../../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../../services/tokens/TokenVerifier.ts"
import { TasksRpc } from "../../contract/rpc/RpcTasks.ts"
import { fingerprintOf } from "../Fingerprint.ts"
import * as IdempotencyKey from "../IdempotencyKey.ts"
import { decodeListQuery, decodeTaskQuery } from "../Query.ts"
import * as TaskReading from "../TaskReading.ts"
import * as RpcRequests from "./RpcRequests.ts"

const { asInvalidRequest, decode, refuseOutage } = RpcRequests

const describeCreated = ({ maxExecutionTime, uuid }: Services.CreatedTask) => ({
  uuid,
  status: "pending" as const,
  max_execution_time: maxExecutionTime
})

const layerGet = TasksRpc.toLayerHandler(
  "Tasks.get",
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const describe = yield* TaskReading.makeRender(TaskView.describe)
    return Effect.fnUntraced(function*({ include, sub, uuid }) {
      const task = yield* refuseOutage(tasks.get(RpcRequests.reader(sub), uuid))
      const { included } = yield* Effect.mapError(Effect.fromResult(decodeTaskQuery({ include })), asInvalidRequest)
      return yield* refuseOutage(describe(task, included))
    })
  })
)

const layerList = TasksRpc.toLayerHandler(
  "Tasks.list",
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const requests = yield* TaskRequests
    return Effect.fnUntraced(function*({ include, metadata = {}, page, per_page, status, sub }) {
      const { sub: owner } = yield* RpcRequests.principal(sub)
      const query = yield* Effect.fromResult(decodeListQuery({
        ...Record.mapKeys(metadata, (key) => `metadata[${key}]`),
        include,
        status,
        page: page === undefined ? undefined : String(page),
        per_page: per_page === undefined ? undefined : String(per_page)
      })).pipe(Effect.mapError(asInvalidRequest))
      const found = yield* refuseOutage(tasks.list({ sub: owner, ...query }))
      const labels = query.includesMetadata
        ? yield* refuseOutage(requests.metadata(owner, found.tasks.map(({ uuid }) => uuid)))
        : undefined
      return TaskView.paginate(found.tasks, found.total, query, labels)
    })
  })
)

const layerWatch = TasksRpc.toLayerHandler(
  "Tasks.watch",
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const watch = yield* TaskWatch
    return ({ after = -1, include = [], sub, uuid }) =>
      Stream.unwrap(
        tasks.getHead(RpcRequests.reader(sub), uuid).pipe(
          Effect.flatMap((task) => watch.events(task, after, include.includes("turn"))),
          Effect.map(
            Stream.map((event) => ({ ...TaskReading.describe(uuid, event), event: TaskReading.nameOf(event) }))
          )
        )
      ).pipe(Stream.catchTag("StoreUnavailable", (error) => Stream.fromEffect(refuseOutage(Effect.fail(error)))))
  })
)

const TaskChanges = TasksRpc.omit("Tasks.get", "Tasks.list", "Tasks.watch")

const layerChanges = TaskChanges.toLayer(
  Effect.gen(function*() {
    const tasks = yield* Services.Tasks
    const requests = yield* TaskRequests
    const tokens = { verifier: yield* TokenVerifier, revocations: yield* TokenRevocations }
    const digest = yield* Digest.Digest

    /** The same claim as REST's for the same key, path and body. */
    const claim = Effect.fnUntraced(function*(key: string | undefined, path: string, body: unknown) {
      if (key === undefined) return undefined
      const fingerprint = yield* fingerprintOf(digest, `POST ${path}`, body)
      return yield* Effect.mapError(IdempotencyKey.claimOf(key, fingerprint), asInvalidRequest)
    })

    return TaskChanges.of({
      "Tasks.create": Effect.fnUntraced(function*({ idempotency_key, task, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const body = yield* decode("createTask", task)
        const created = yield* refuseOutage(
          tasks.create(caller, body, yield* claim(idempotency_key, "/api/tasks", task))
        )
        return describeCreated(created)
      }),
      "Tasks.rerun": Effect.fnUntraced(function*({ body = {}, idempotency_key, uuid, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const task = yield* refuseOutage(tasks.getHead(caller.principal, uuid))
        const overrides = yield* decode("rerunTask", body)
        const path = `/api/tasks/${uuid}/rerun`
        return describeCreated(
          yield* refuseOutage(requests.rerun(caller, task, overrides, yield* claim(idempotency_key, path, body)))
        )
      }),
      "Tasks.submitToolResults": Effect.fnUntraced(function*({ body, idempotency_key, uuid, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const task = yield* refuseOutage(tasks.get(caller.principal, uuid))
        const results = yield* decode("toolResults", body)
        const path = `/api/tasks/${uuid}/tool-results`
        yield* refuseOutage(
          tasks.submitToolResults(caller, task, results, yield* claim(idempotency_key, path, body))
        )
        return { uuid: task.uuid, status: "processing" }
      }),
      "Tasks.cancel": Effect.fnUntraced(function*({ body = {}, idempotency_key, sub, uuid }) {
        const task = yield* refuseOutage(tasks.getHead(RpcRequests.reader(sub), uuid))
        const { reason } = yield* decode("cancel", body)
        const path = `/api/tasks/${uuid}/cancel`
        yield* refuseOutage(tasks.cancel(task, reason, yield* claim(idempotency_key, path, body)))
        return { uuid: task.uuid, status: "canceled" }
      }),
      "Tasks.withdraw": Effect.fnUntraced(function*({ body = {}, sub, uuid }) {
        const task = yield* refuseOutage(tasks.getHead(RpcRequests.reader(sub), uuid))
        const { reason } = yield* decode("cancel", body)
        yield* refuseOutage(tasks.withdraw(task, reason))
        return { uuid: task.uuid, status: "canceled" }
      }),
      "Tasks.delete": ({ sub, uuid }) =>
        refuseOutage(Effect.flatMap(tasks.getHead(RpcRequests.reader(sub), uuid), tasks.delete)),
      "Tasks.cancelInterrupted": Effect.fnUntraced(function*({ sub }) {
        const uuids = yield* refuseOutage(tasks.cancelInterrupted(yield* RpcRequests.principal(sub)))
        return { canceled: uuids.length, uuids }
      })
    })
  })
)

export const layer = Layer.mergeAll(layerGet, layerList, layerWatch, layerChanges)
