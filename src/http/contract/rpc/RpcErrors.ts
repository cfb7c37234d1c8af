/** Failures of the internal interface that are not a task's own (`domain/TaskErrors` has those); each is told by its `_tag`. */
import { Schema } from "effect"

/** The bearer token is none of `INTERNAL_TOKENS`. */
export class RpcUnauthorized extends Schema.TaggedError<RpcUnauthorized>()("Unauthorized", {
  message: Schema.String
}) {}

/** As REST's 422: `errors` maps a dotted field path to what is wrong there. */
export class InvalidRequest extends Schema.TaggedError<InvalidRequest>()("InvalidRequest", {
  message: Schema.String,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String))
}) {}

/** The service cannot reach what it needs; whether the call took effect is not known. Try again soon. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", { message: Schema.String }) {}

/** A fault on the service's side. Its log has the details. */
export class InternalFailure extends Schema.TaggedError<InternalFailure>()("InternalFailure", {
  message: Schema.String
}) {}
