/** Reasons why a request about a schedule fails. REST and RPC map them to their own errors. */
import { Schema } from "effect"
import { limits } from "./Schedule.ts"

export class ScheduleNotFound extends Schema.TaggedError<ScheduleNotFound>()("ScheduleNotFound", {}) {
  override get message() {
    return "There is no such schedule."
  }
}

export class ScheduleBelongsToAnother
  extends Schema.TaggedError<ScheduleBelongsToAnother>()("ScheduleBelongsToAnother", {})
{
  override get message() {
    return "The schedule belongs to another user."
  }
}

export class ScheduleHasEnded extends Schema.TaggedError<ScheduleHasEnded>()("ScheduleHasEnded", {}) {
  override get message() {
    return "The schedule has ended."
  }
}

export class ScheduleKeyTaken extends Schema.TaggedError<ScheduleKeyTaken>()("ScheduleKeyTaken", {}) {
  override get message() {
    return "Another schedule of the user has this key. PUT /api/schedules/by-key/{key} replaces it."
  }
}

export class ScheduleChanged extends Schema.TaggedError<ScheduleChanged>()("ScheduleChanged", {}) {
  override get message() {
    return "The schedule has another version than If-Match names. Read it again."
  }
}

export class TooManySchedules extends Schema.TaggedError<TooManySchedules>()("TooManySchedules", {}) {
  override get message() {
    return `Too many schedules. The maximum is ${limits.ofUser} schedules that are active, paused or waiting to create their task.`
  }
}

/** The token was revoked while the request was under way. */
export class AuthorizationRevoked extends Schema.TaggedError<AuthorizationRevoked>()("AuthorizationRevoked", {}) {}

/** Messages by field. */
export class InvalidSchedule extends Schema.TaggedError<InvalidSchedule>()("InvalidSchedule", {
  errors: Schema.Record(Schema.String, Schema.String)
}) {}
