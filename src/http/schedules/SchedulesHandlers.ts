/** Handlers of schedules, by REST and by RPC. */
import { Effect, Record } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { encode, fromValue, toValue } from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { monotonicMillis, now } from "../../domain/Timestamp.ts"
import { defaults, limits, type Schedule, upcoming } from "../../services/schedules/Schedule.ts"
import { Schedules } from "../../services/schedules/Schedules.ts"
import { SchedulesStore } from "../../services/schedules/SchedulesStore.ts"
import { Conflict, Forbidden, invalid, NotFound, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { unauthorized } from "../handlers/Authorization.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import * as Call from "../handlers/Call.ts"
import { as, createErrors, refusing } from "../handlers/ErrorResponses.ts"
import * as ETags from "../handlers/ETags.ts"
import * as IdempotencyKey from "../handlers/IdempotencyKey.ts"
import { decodePage, listOf, type Query } from "../handlers/Query.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import * as Bodies from "./ScheduleBodies.ts"
import { PreconditionFailed, SchedulesApi } from "./SchedulesApi.ts"
import { SchedulesRpc } from "./SchedulesRpc.ts"
import * as Views from "./ScheduleViews.ts"

const refused = refusing({
  ...createErrors,
  ScheduleNotFound: as(NotFound),
  ScheduleBelongsToAnother: as(Forbidden),
  ScheduleKeyTaken: as(Conflict),
  ScheduleHasEnded: as(Conflict),
  ScheduleChanged: as(PreconditionFailed),
  TooManySchedules: as(TooManyRequests),
  AuthorizationRevoked: () => unauthorized
})

const invalidSchedule = {
  InvalidSchedule: ({ errors }: { readonly errors: Readonly<Record<string, string>> }) =>
    Effect.fail(validationFailed(Record.map(errors, (text) => [text])))
}

const json = (value: Writable, options: HttpServerResponse.Options = {}) =>
  HttpServerResponse.uint8Array(encode(fromValue(value)), { ...options, contentType: "application/json" })

const shown = (schedule: Schedule, status = 200) =>
  json(Views.detail(schedule), {
    status,
    headers: {
      etag: Views.etagOf(schedule),
      "cache-control": "private, no-cache",
      ...(status === 201 ? { location: `/api/schedules/${schedule.id}` } : {})
    }
  })

const statesOf = (query: Query) =>
  Bodies.statesOf(
    Object.entries(query)
      .flatMap(([name, values]) => {
        if (/^state(\[\d*\])?$/.test(name)) return listOf(values)
        // An unknown bracket form is no state; ignoring it would drop the filter.
        return name.startsWith("state[") ? [name] : []
      })
      .flatMap((text) => text.split(","))
  )

/** True if a schedule has one of the versions that `If-Match` names. */
const wants = (ifMatch: string | undefined) => (schedule: Schedule) =>
  ifMatch === undefined || ETags.names(ifMatch, Views.etagOf(schedule))

/** Calls of each user in the present second. */
const makePreviewLimit = () => {
  let second = 0
  const counts = new Map<string, number>()
  return Effect.fnUntraced(function*(sub: string) {
    const present = Math.floor((yield* monotonicMillis) / 1000)
    if (present !== second) counts.clear()
    second = present
    const count = (counts.get(sub) ?? 0) + 1
    counts.set(sub, count)
    if (count > limits.previews) {
      return yield* new TooManyRequests({ message: `At most ${limits.previews} previews a second are allowed.` })
    }
  })
}

/** The operations of schedules. 403 and 404 have precedence over what is wrong with a body or a query. */
const makeOperations = Effect.gen(function*() {
  const schedules = yield* Schedules
  const store = yield* SchedulesStore
  return {
    create: Effect.fnUntraced(function*<E, R>({ caller, receive }: Call.Call<E, R>) {
      const by = yield* caller
      const { body, key } = yield* receive(Bodies.create)
      return yield* Effect.catchTags(schedules.create(by, body, key), invalidSchedule)
    }),
    put: Effect.fnUntraced(function*<E, R>({ caller, receive }: Call.Call<E, R>, key: string) {
      const by = yield* caller
      const { body } = yield* receive(Bodies.create)
      const problem = Bodies.problemOfPut(body, key)
      if (problem !== undefined) return yield* invalid("key", problem)
      return yield* Effect.catchTags(schedules.put(by, { ...body, key }), invalidSchedule)
    }),
    get: Effect.fnUntraced(function*<R>({ principal }: Call.Call<unknown, R>, id: string) {
      return yield* schedules.get(yield* principal, id)
    }),
    update: Effect.fnUntraced(
      function*<E, R>({ caller, receive }: Call.Call<E, R>, id: string, isWanted: (schedule: Schedule) => boolean) {
        const by = yield* caller
        yield* schedules.get(by.principal, id)
        const { body } = yield* receive(Bodies.update)
        return yield* Effect.catchTags(schedules.update(by, id, body, isWanted), invalidSchedule)
      }
    ),
    delete: Effect.fnUntraced(function*<R>({ principal }: Call.Call<unknown, R>, id: string) {
      yield* schedules.delete(yield* principal, id)
    }),
    pause: Effect.fnUntraced(function*<E, R>({ principal, receive }: Call.Call<E, R>, id: string) {
      const user = yield* principal
      yield* schedules.get(user, id)
      const { body: reason } = yield* receive(Bodies.pause)
      return yield* schedules.pause(user, id, reason)
    }),
    resume: Effect.fnUntraced(function*<E, R>({ caller }: Call.Call<E, R>, id: string) {
      return yield* Effect.catchTags(schedules.resume(yield* caller, id), invalidSchedule)
    }),
    trigger: Effect.fnUntraced(function*<E, R>({ caller, receive }: Call.Call<E, R>, id: string) {
      const by = yield* caller
      yield* schedules.get(by.principal, id)
      const { key } = yield* receive(Bodies.empty)
      const { isReplay, maxExecutionTime, uuid } = yield* Effect.catchTags(schedules.trigger(by, id, key), {
        TaskBodyRefused: ({ message }) => Effect.fail(invalid("task", message))
      })
      return { isReplay, view: { uuid, status: "pending" as const, max_execution_time: maxExecutionTime } }
    }),
    list: Effect.fnUntraced(function*(sub: string, query: Query) {
      const states = yield* Effect.fromResult(statesOf(query))
      const wanted = yield* Effect.fromResult(decodePage(query))
      const { schedules, total } = yield* store.list(sub, states, wanted.page, wanted.perPage)
      return Views.page(schedules.map(Views.summary), total, wanted)
    }),
    runs: Effect.fnUntraced(function*<R>({ principal }: Call.Call<unknown, R>, id: string, query: Query) {
      const schedule = yield* schedules.get(yield* principal, id)
      const wanted = yield* Effect.fromResult(decodePage(query))
      const { runs, total } = yield* store.runs(schedule.id, wanted.page, wanted.perPage)
      return Views.page(runs.map(Views.run), total, wanted)
    }),
    preview: Effect.fnUntraced(function*<E, R>({ receive }: Call.Call<E, R>, allow: Effect.Effect<void, E, R>) {
      const { body: { after, count, ...rhythm } } = yield* receive(Bodies.preview)
      yield* allow
      return { data: Views.moments(upcoming({ ...defaults, ...rhythm }, after ?? (yield* now), count)) }
    })
  }
})

export const layer = HttpApiBuilder.group(
  SchedulesApi,
  "schedules",
  Effect.fn(function*(handlers) {
    const operations = yield* makeOperations
    const call = yield* Call.make
    const limitPreviews = makePreviewLimit()
    const sub = Effect.map(CurrentCaller, ({ principal }) => principal.sub)
    const query = HttpServerRequest.ParsedSearchParams
    return handlers
      .handleRaw(
        "create",
        ({ request }) =>
          refused(
            Effect.map(operations.create(call(request)), ({ isReplay, schedule }) =>
              IdempotencyKey.markReplay(isReplay)(shown(schedule, 201)))
          )
      )
      .handleRaw(
        "put",
        ({ params: { key }, request }) =>
          refused(
            Effect.map(operations.put(call(request), key), ({ isNew, schedule }) => shown(schedule, isNew ? 201 : 200))
          )
      )
      .handleRaw(
        "list",
        () => refused(Effect.map(Effect.flatMap(Effect.all([sub, query]), (given) => operations.list(...given)), json))
      )
      .handleRaw(
        "preview",
        ({ request }) => Effect.map(operations.preview(call(request), Effect.flatMap(sub, limitPreviews)), json)
      )
      .handleRaw("get", ({ params: { id }, request }) => refused(Effect.map(operations.get(call(request), id), shown)))
      .handleRaw(
        "update",
        ({ params: { id }, request }) =>
          refused(Effect.map(operations.update(call(request), id, wants(request.headers["if-match"])), shown))
      )
      .handleRaw(
        "delete",
        ({ params: { id }, request }) =>
          refused(Effect.as(operations.delete(call(request), id), HttpServerResponse.empty({ status: 204 })))
      )
      .handleRaw(
        "pause",
        ({ params: { id }, request }) => refused(Effect.map(operations.pause(call(request), id), shown))
      )
      .handleRaw(
        "resume",
        ({ params: { id }, request }) => refused(Effect.map(operations.resume(call(request), id), shown))
      )
      .handleRaw(
        "trigger",
        ({ params: { id }, request }) =>
          refused(
            Effect.map(operations.trigger(call(request), id), ({ isReplay, view }) =>
              json(view, { status: 201, headers: { location: `/api/tasks/${view.uuid}` } }).pipe(
                IdempotencyKey.markReplay(isReplay)
              ))
          )
      )
      .handleRaw(
        "runs",
        ({ params: { id }, request }) =>
          refused(Effect.map(Effect.flatMap(query, (given) => operations.runs(call(request), id, given)), json))
      )
  })
)

const toJson = (value: Writable) => toValue(fromValue(value))
const detail = (schedule: Schedule) => toJson(Views.detail(schedule))
const revoked = {
  AuthorizationRevoked: () => Effect.fail(RpcRequests.invalid("user_token", "The token is invalid, expired or revoked"))
}

export const layerRpc = SchedulesRpc.toLayer(Effect.gen(function*() {
  const operations = yield* makeOperations
  const call = yield* RpcRequests.makeCall
  const { answer, queryOf } = RpcRequests
  return SchedulesRpc.of({
    "Schedules.create": ({ schedule, ...user }) =>
      operations.create(call("/api/schedules", { ...user, body: schedule })).pipe(
        Effect.map(({ schedule }) => detail(schedule)),
        Effect.catchTags(revoked),
        answer
      ),
    "Schedules.put": ({ key, schedule, ...user }) =>
      operations.put(call("", { ...user, body: schedule }), key).pipe(
        Effect.map(({ schedule }) => detail(schedule)),
        Effect.catchTags(revoked),
        answer
      ),
    "Schedules.get": ({ id, ...user }) => answer(Effect.map(operations.get(call("", user), id), detail)),
    "Schedules.list": ({ sub, ...given }) =>
      RpcRequests.principal(sub).pipe(
        Effect.flatMap((owner) => operations.list(owner.sub, queryOf(given))),
        Effect.map(toJson),
        answer
      ),
    "Schedules.update": ({ id, ...given }) =>
      operations.update(call("", given), id, () => true).pipe(
        Effect.map(detail),
        Effect.catchTags({ ...revoked, ScheduleChanged: Effect.die }),
        answer
      ),
    "Schedules.delete": ({ id, ...user }) => answer(operations.delete(call("", user), id)),
    "Schedules.pause": ({ id, ...given }) => answer(Effect.map(operations.pause(call("", given), id), detail)),
    "Schedules.resume": ({ id, ...user }) =>
      answer(Effect.map(operations.resume(call("", user), id), detail).pipe(Effect.catchTags(revoked))),
    "Schedules.trigger": ({ id, ...user }) =>
      answer(Effect.map(operations.trigger(call(`/api/schedules/${id}/trigger`, user), id), ({ view }) => view)),
    "Schedules.runs": ({ id, sub, ...given }) =>
      answer(Effect.map(operations.runs(call("", { sub }), id, queryOf(given)), toJson)),
    "Schedules.preview": ({ body }) =>
      answer(Effect.map(operations.preview(call("", { sub: "", body }), Effect.void), toJson))
  })
}))
