/** Handlers of the group `Schedules` of the internal interface. */
import { Effect, Layer } from "effect"
import { fromValue, toValue } from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import { now } from "../../domain/Timestamp.ts"
import { defaults, upcoming } from "../../services/schedules/Schedule.ts"
import { Schedules } from "../../services/schedules/Schedules.ts"
import { SchedulesStore } from "../../services/schedules/SchedulesStore.ts"
import { TokenRevocations } from "../../services/tokens/TokenRevocations.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { InvalidRequest } from "../contract/rpc/RpcErrors.ts"
import { bytesOf } from "../handlers/body/JsonBody.ts"
import { decodePage } from "../handlers/Query.ts"
import * as RpcRequests from "../handlers/rpc/RpcRequests.ts"
import * as Bodies from "./ScheduleBodies.ts"
import { SchedulesRpc } from "./SchedulesRpc.ts"
import * as Views from "./ScheduleViews.ts"

const { asInvalidRequest, decode, invalid, refuseOutage } = RpcRequests

const json = (value: Writable) => toValue(fromValue(value))

const refusals = {
  AuthorizationRevoked: () => Effect.fail(invalid("user_token", "The token is invalid, expired or revoked")),
  InvalidSchedule: ({ errors }: { readonly errors: Readonly<Record<string, string>> }) => {
    const [field = "body", message = ""] = Object.entries(errors)[0] ?? []
    return Effect.fail(
      new InvalidRequest({
        message: `${field}: ${message}`,
        errors: Object.fromEntries(Object.entries(errors).map(([name, text]) => [name, [text]]))
      })
    )
  }
}

const pageOf = (paging: object) =>
  Effect.mapError(Effect.fromResult(decodePage(RpcRequests.queryOf(paging))), asInvalidRequest)

const SchedulesReads = SchedulesRpc.omit(
  "Schedules.create",
  "Schedules.put",
  "Schedules.update",
  "Schedules.resume",
  "Schedules.trigger"
)

const layerReads = SchedulesReads.toLayer(Effect.gen(function*() {
  const schedules = yield* Schedules
  const store = yield* SchedulesStore
  const { reader } = RpcRequests
  return SchedulesReads.of({
    "Schedules.get": ({ id, sub }) =>
      refuseOutage(Effect.map(schedules.get(reader(sub), id), (found) => json(Views.detail(found)))),
    "Schedules.list": Effect.fnUntraced(function*({ state = [], sub, ...paging }) {
      const { sub: owner } = yield* RpcRequests.principal(sub)
      const wanted = yield* pageOf(paging)
      const states = yield* Effect.mapError(Effect.fromResult(Bodies.statesOf(state)), asInvalidRequest)
      const { schedules, total } = yield* refuseOutage(store.list(owner, states, wanted.page, wanted.perPage))
      return json(Views.page(schedules.map(Views.summary), total, wanted))
    }),
    "Schedules.delete": ({ id, sub }) => refuseOutage(schedules.delete(reader(sub), id)),
    "Schedules.pause": Effect.fnUntraced(function*({ body = {}, id, sub }) {
      const reason = yield* decode(Bodies.pause, body)
      return json(Views.detail(yield* refuseOutage(schedules.pause(reader(sub), id, reason))))
    }),
    "Schedules.runs": Effect.fnUntraced(function*({ id, sub, ...paging }) {
      const { id: scheduleId } = yield* refuseOutage(schedules.get(reader(sub), id))
      const wanted = yield* pageOf(paging)
      const { runs, total } = yield* refuseOutage(store.runs(scheduleId, wanted.page, wanted.perPage))
      return json(Views.page(runs.map(Views.run), total, wanted))
    }),
    "Schedules.preview": Effect.fnUntraced(function*({ body }) {
      const { after, count, ...rhythm } = yield* decode(Bodies.preview, body)
      return json({ data: Views.moments(upcoming({ ...defaults, ...rhythm }, after ?? (yield* now), count)) })
    })
  })
}))

const SchedulesChanges = SchedulesRpc.omit(
  "Schedules.get",
  "Schedules.list",
  "Schedules.delete",
  "Schedules.pause",
  "Schedules.runs",
  "Schedules.preview"
)

const layerChanges = SchedulesChanges.toLayer(Effect.gen(function*() {
  const schedules = yield* Schedules
  const tokens = { verifier: yield* TokenVerifier, revocations: yield* TokenRevocations }
  const keyOf = yield* RpcRequests.makeKeyOf
  return SchedulesChanges.of({
    "Schedules.create": Effect.fnUntraced(function*({ idempotency_key, schedule, ...user }) {
      const caller = yield* RpcRequests.caller(tokens, user)
      const draft = yield* decode(Bodies.create, schedule)
      const made = yield* refuseOutage(
        schedules.create(caller, draft, yield* keyOf(idempotency_key, "/api/schedules", bytesOf(schedule)))
      )
      return json(Views.detail(made.schedule))
    }, Effect.catchTags(refusals)),
    "Schedules.put": Effect.fnUntraced(function*({ key, schedule, ...user }) {
      const caller = yield* RpcRequests.caller(tokens, user)
      const draft = yield* decode(Bodies.create, schedule)
      const problem = Bodies.problemOfPut(draft, key)
      if (problem !== undefined) return yield* invalid("key", problem)
      return json(Views.detail((yield* refuseOutage(schedules.put(caller, { ...draft, key }))).schedule))
    }, Effect.catchTags(refusals)),
    "Schedules.update": Effect.fnUntraced(function*({ body, id, ...user }) {
      const caller = yield* RpcRequests.caller(tokens, user)
      const changes = yield* decode(Bodies.update, body)
      return json(Views.detail(yield* refuseOutage(schedules.update(caller, id, changes, () => true))))
    }, Effect.catchTags({ ...refusals, ScheduleChanged: Effect.die })),
    "Schedules.resume": Effect.fnUntraced(function*({ id, ...user }) {
      const caller = yield* RpcRequests.caller(tokens, user)
      return json(Views.detail(yield* refuseOutage(schedules.resume(caller, id))))
    }, Effect.catchTags(refusals)),
    "Schedules.trigger": Effect.fnUntraced(
      function*({ id, idempotency_key, ...user }) {
        const caller = yield* RpcRequests.caller(tokens, user)
        const key = yield* keyOf(idempotency_key, `/api/schedules/${id}/trigger`, new Uint8Array())
        const { maxExecutionTime, uuid } = yield* refuseOutage(schedules.trigger(caller, id, key))
        return { uuid, status: "pending" as const, max_execution_time: maxExecutionTime }
      },
      Effect.catchTags({
        TaskBodyRefused: ({ message }) => Effect.fail(invalid("task", message)),
        ...RpcRequests.refusedCreates
      })
    )
  })
}))

export const layer = Layer.merge(layerReads, layerChanges)
