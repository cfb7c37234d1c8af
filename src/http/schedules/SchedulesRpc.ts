/** The group `Schedules` of the internal interface: REST's operations on behalf of any `sub`. */
import { Schema } from "effect"
import { Rpc, RpcGroup } from "effect/rpc"
import { JsonValue } from "../../domain/json/OpaqueJson.ts"
import { IdempotencyKeyReused, TooManyActiveTasks } from "../../domain/TaskErrors.ts"
import * as Errors from "../../services/schedules/ScheduleErrors.ts"
import { InvalidRequest, jsonCall, RpcAuthorization, Unavailable } from "../contract/rpc/RpcErrors.ts"
import { CreatedTaskView } from "../contract/TaskSchemas.ts"

const sub = { sub: Schema.String }
const one = { ...sub, id: Schema.String }
const withUserToken = { user_token: Schema.optionalKey(Schema.String) }
const retryable = { idempotency_key: Schema.optionalKey(Schema.String) }
const paging = { page: Schema.optionalKey(Schema.Finite), per_page: Schema.optionalKey(Schema.Finite) }

const owned = [InvalidRequest, Unavailable, Errors.ScheduleNotFound, Errors.ScheduleBelongsToAnother] as const
const saving = [...owned, Errors.TooManySchedules, Errors.ScheduleKeyTaken] as const
const running = [...owned, Errors.ScheduleHasEnded] as const

export class SchedulesRpc extends RpcGroup.make(
  jsonCall("Schedules.create", { ...sub, ...withUserToken, ...retryable, schedule: JsonValue }, [
    ...saving,
    IdempotencyKeyReused
  ]),
  jsonCall("Schedules.put", { ...sub, ...withUserToken, key: Schema.String, schedule: JsonValue }, saving),
  jsonCall("Schedules.get", one, owned),
  jsonCall("Schedules.list", { ...sub, ...paging, state: Schema.optionalKey(Schema.Array(Schema.String)) }, owned),
  jsonCall("Schedules.update", { ...one, ...withUserToken, body: JsonValue }, saving),
  Rpc.make("Schedules.delete", { payload: one, error: Schema.Union(owned) }),
  jsonCall("Schedules.pause", { ...one, body: Schema.optionalKey(JsonValue) }, running),
  jsonCall("Schedules.resume", { ...one, ...withUserToken }, [...saving, Errors.ScheduleHasEnded]),
  Rpc.make("Schedules.trigger", {
    payload: { ...one, ...withUserToken, ...retryable },
    success: CreatedTaskView,
    error: Schema.Union([...running, TooManyActiveTasks, IdempotencyKeyReused])
  }),
  jsonCall("Schedules.runs", { ...one, ...paging }, owned),
  jsonCall("Schedules.preview", { body: JsonValue }, owned)
).middleware(RpcAuthorization) {}
