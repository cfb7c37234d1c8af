/** The group `Schedules` of the internal interface: REST's operations on behalf of any `sub`. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { JsonValue } from "../../domain/json/OpaqueJson.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import * as Errors from "../../services/schedules/ScheduleErrors.ts"
import { InvalidRequest, RpcAuthorization, Unavailable } from "../contract/rpc/RpcErrors.ts"
import { CreatedTaskView } from "../contract/TaskSchemas.ts"

const sub = { sub: Schema.String }
const one = { ...sub, id: Schema.String }
const withUserToken = { user_token: Schema.optionalKey(Schema.String) }
const retryable = { idempotency_key: Schema.optionalKey(Schema.String) }
const paging = { page: Schema.optionalKey(Schema.Finite), per_page: Schema.optionalKey(Schema.Finite) }

const owned = [InvalidRequest, Unavailable, Errors.ScheduleNotFound, Errors.ScheduleBelongsToAnother] as const
const saving = [Errors.TooManySchedules, Errors.ScheduleKeyTaken] as const

/** Schedules and pages are REST's JSON. */
export class SchedulesRpc extends RpcGroup.make(
  Rpc.make("Schedules.create", {
    payload: { ...sub, ...withUserToken, ...retryable, schedule: JsonValue },
    success: JsonValue,
    error: Schema.Union([...owned, ...saving, IdempotencyKeyReused])
  }),
  Rpc.make("Schedules.put", {
    payload: { ...sub, ...withUserToken, key: Schema.String, schedule: JsonValue },
    success: JsonValue,
    error: Schema.Union([...owned, ...saving])
  }),
  Rpc.make("Schedules.get", { payload: one, success: JsonValue, error: Schema.Union(owned) }),
  Rpc.make("Schedules.list", {
    payload: { ...sub, ...paging, state: Schema.optionalKey(Schema.Array(Schema.String)) },
    success: JsonValue,
    error: Schema.Union(owned)
  }),
  Rpc.make("Schedules.update", {
    payload: { ...one, ...withUserToken, body: JsonValue },
    success: JsonValue,
    error: Schema.Union([...owned, ...saving])
  }),
  Rpc.make("Schedules.delete", { payload: one, error: Schema.Union(owned) }),
  Rpc.make("Schedules.pause", {
    payload: { ...one, body: Schema.optionalKey(JsonValue) },
    success: JsonValue,
    error: Schema.Union([...owned, Errors.ScheduleHasEnded])
  }),
  Rpc.make("Schedules.resume", {
    payload: { ...one, ...withUserToken },
    success: JsonValue,
    error: Schema.Union([...owned, ...saving, Errors.ScheduleHasEnded])
  }),
  Rpc.make("Schedules.trigger", {
    payload: { ...one, ...withUserToken, ...retryable },
    success: CreatedTaskView,
    error: Schema.Union([...owned, Errors.ScheduleHasEnded, TooManyActiveTasks, IdempotencyKeyReused])
  }),
  Rpc.make("Schedules.runs", { payload: { ...one, ...paging }, success: JsonValue, error: Schema.Union(owned) }),
  Rpc.make("Schedules.preview", { payload: { body: JsonValue }, success: JsonValue, error: Schema.Union(owned) })
).middleware(RpcAuthorization) {}
