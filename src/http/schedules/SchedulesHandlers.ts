/** Handlers of the group `schedules`. */
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { encode, fromValue } from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { monotonicMillis, now } from "../../domain/Timestamp.ts"
import { defaults, limits, type Schedule, upcoming } from "../../services/schedules/Schedule.ts"
import { Schedules } from "../../services/schedules/Schedules.ts"
import { SchedulesStore } from "../../services/schedules/SchedulesStore.ts"
import { Conflict, Forbidden, invalid, NotFound, TooManyRequests } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { unauthorized } from "../handlers/Authorization.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { failWith, refusedCreates, storeErrors } from "../handlers/ErrorResponses.ts"
import * as ETags from "../handlers/ETags.ts"
import * as IdempotencyKey from "../handlers/IdempotencyKey.ts"
import { decodePage, listOf, type Query } from "../handlers/Query.ts"
import * as Bodies from "./ScheduleBodies.ts"
import { PreconditionFailed, SchedulesApi } from "./SchedulesApi.ts"
import * as Views from "./ScheduleViews.ts"

const ownErrors = {
  ...storeErrors,
  ScheduleNotFound: failWith(NotFound),
  ScheduleBelongsToAnother: failWith(Forbidden)
}

const saveErrors = {
  TooManySchedules: failWith(TooManyRequests),
  ScheduleKeyTaken: failWith(Conflict),
  AuthorizationRevoked: () => Effect.fail(unauthorized),
  InvalidSchedule: ({ errors }: { readonly errors: Readonly<Record<string, string>> }) =>
    Effect.fail(validationFailed(Object.fromEntries(Object.entries(errors).map(([field, text]) => [field, [text]]))))
}

const ended = { ScheduleHasEnded: failWith(Conflict) }
const reused = { IdempotencyKeyReused: () => Effect.fail(IdempotencyKey.reused) }

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

/** Whether a schedule has one of the versions that `If-Match` names. */
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

interface One {
  readonly params: { readonly id: string }
  readonly request: HttpServerRequest.HttpServerRequest
}
type Request = Pick<One, "request">

const makeWrites = Effect.gen(function*() {
  const schedules = yield* Schedules
  const { read } = yield* BodyReader
  return {
    create: Effect.fnUntraced(function*({ request }: Request) {
      const caller = yield* CurrentCaller
      const { body, key } = yield* read(Bodies.create, request)
      const { isReplay, schedule } = yield* schedules.create(caller, body, key)
      return IdempotencyKey.markReplay(isReplay)(shown(schedule, 201))
    }, Effect.catchTags({ ...storeErrors, ...saveErrors, ...reused, ScheduleNotFound: failWith(NotFound) })),
    put: Effect.fnUntraced(
      function*({ params: { key }, request }: Request & { readonly params: { readonly key: string } }) {
        const caller = yield* CurrentCaller
        const { body } = yield* read(Bodies.create, request)
        const problem = Bodies.problemOfPut(body, key)
        if (problem !== undefined) return yield* invalid("key", problem)
        const { isNew, schedule } = yield* schedules.put(caller, { ...body, key })
        return shown(schedule, isNew ? 201 : 200)
      },
      Effect.catchTags({ ...storeErrors, ...saveErrors })
    ),
    update: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      const caller = yield* CurrentCaller
      yield* schedules.get(caller.principal, id)
      const { body } = yield* read(Bodies.update, request)
      return shown(yield* schedules.update(caller, id, body, wants(request.headers["if-match"])))
    }, Effect.catchTags({ ...ownErrors, ...saveErrors, ScheduleChanged: failWith(PreconditionFailed) })),
    pause: Effect.fnUntraced(function*({ params: { id }, request }: One) {
      const { principal } = yield* CurrentCaller
      yield* schedules.get(principal, id)
      const { body: reason } = yield* read(Bodies.pause, request)
      return shown(yield* schedules.pause(principal, id, reason))
    }, Effect.catchTags({ ...ownErrors, ...ended })),
    resume: Effect.fnUntraced(function*({ params: { id } }: One) {
      return shown(yield* schedules.resume(yield* CurrentCaller, id))
    }, Effect.catchTags({ ...ownErrors, ...saveErrors, ...ended })),
    trigger: Effect.fnUntraced(
      function*({ params: { id }, request }: One) {
        const caller = yield* CurrentCaller
        yield* schedules.get(caller.principal, id)
        const { key } = yield* read(Bodies.empty, request)
        const { isReplay, maxExecutionTime, uuid } = yield* schedules.trigger(caller, id, key)
        return json({ uuid, status: "pending", max_execution_time: maxExecutionTime }, {
          status: 201,
          headers: { location: `/api/tasks/${uuid}` }
        }).pipe(IdempotencyKey.markReplay(isReplay))
      },
      Effect.catchTags({
        ...ownErrors,
        ...ended,
        ...reused,
        TooManyActiveTasks: failWith(TooManyRequests),
        ...refusedCreates,
        TaskBodyRefused: ({ message }) => Effect.fail(invalid("task", message))
      })
    )
  }
})

const makeReads = Effect.gen(function*() {
  const schedules = yield* Schedules
  const store = yield* SchedulesStore
  const { read } = yield* BodyReader
  const limitPreviews = makePreviewLimit()
  return {
    list: Effect.gen(function*() {
      const { principal: { sub } } = yield* CurrentCaller
      const query = yield* HttpServerRequest.ParsedSearchParams
      const states = yield* Effect.fromResult(statesOf(query))
      const wanted = yield* Effect.fromResult(decodePage(query))
      const { schedules, total } = yield* store.list(sub, states, wanted.page, wanted.perPage)
      return json(Views.page(schedules.map(Views.summary), total, wanted))
    }).pipe(Effect.catchTags(storeErrors)),
    get: Effect.fnUntraced(function*({ params: { id } }: One) {
      const { principal } = yield* CurrentCaller
      return shown(yield* schedules.get(principal, id))
    }, Effect.catchTags(ownErrors)),
    delete: Effect.fnUntraced(function*({ params: { id } }: One) {
      const { principal } = yield* CurrentCaller
      yield* schedules.delete(principal, id)
      return HttpServerResponse.empty({ status: 204 })
    }, Effect.catchTags(ownErrors)),
    runs: Effect.fnUntraced(function*({ params }: One) {
      const { principal } = yield* CurrentCaller
      const { id } = yield* schedules.get(principal, params.id)
      const wanted = yield* Effect.fromResult(decodePage(yield* HttpServerRequest.ParsedSearchParams))
      const { runs, total } = yield* store.runs(id, wanted.page, wanted.perPage)
      return json(Views.page(runs.map(Views.run), total, wanted))
    }, Effect.catchTags(ownErrors)),
    preview: Effect.fnUntraced(function*({ request }: Request) {
      const { principal: { sub } } = yield* CurrentCaller
      const { body: { after, count, ...rhythm } } = yield* read(Bodies.preview, request)
      yield* limitPreviews(sub)
      return json({ data: Views.moments(upcoming({ ...defaults, ...rhythm }, after ?? (yield* now), count)) })
    })
  }
})

export const layer = HttpApiBuilder.group(
  SchedulesApi,
  "schedules",
  Effect.fn(function*(handlers) {
    const reads = yield* makeReads
    const writes = yield* makeWrites
    return handlers
      .handleRaw("create", writes.create)
      .handleRaw("put", writes.put)
      .handleRaw("list", () => reads.list)
      .handleRaw("preview", reads.preview)
      .handleRaw("get", reads.get)
      .handleRaw("update", writes.update)
      .handleRaw("delete", reads.delete)
      .handleRaw("pause", writes.pause)
      .handleRaw("resume", writes.resume)
      .handleRaw("trigger", writes.trigger)
      .handleRaw("runs", reads.runs)
  })
)
