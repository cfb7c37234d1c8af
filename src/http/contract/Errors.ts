/** Public errors: each is `{message}` with its status, and 422 adds `errors`. */
import { Schema } from "effect"

const fields = { message: Schema.String.annotate({ description: "The problem in words." }) }

export class Unauthorized extends Schema.Error<Unauthorized>("Unauthorized")(fields, { httpApiStatus: 401 }) {}

export class Forbidden extends Schema.Error<Forbidden>("Forbidden")(fields, { httpApiStatus: 403 }) {}

export class NotFound extends Schema.Error<NotFound>("NotFound")(fields, { httpApiStatus: 404 }) {}

export class RequestTimeout extends Schema.Error<RequestTimeout>("RequestTimeout")(fields, { httpApiStatus: 408 }) {}

export class Conflict extends Schema.Error<Conflict>("Conflict")(fields, { httpApiStatus: 409 }) {}

export class PayloadTooLarge extends Schema.Error<PayloadTooLarge>("PayloadTooLarge")(fields, { httpApiStatus: 413 }) {}

/** The body is compressed or has another unsupported `Content-Encoding`. */
export class UnsupportedMediaType
  extends Schema.Error<UnsupportedMediaType>("UnsupportedMediaType")(fields, { httpApiStatus: 415 })
{}

/** `errors` maps a dotted field path, as in `input.0.type`, to messages; `body` is the path of the whole body. */
export class ValidationFailed extends Schema.Error<ValidationFailed>("ValidationFailed")({
  ...fields,
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String)).annotate({
    description:
      "Maps the dotted path of each invalid field, as in `input.0.type`, to its messages; `body` is the whole body."
  })
}, { httpApiStatus: 422 }) {}

export class TooManyRequests extends Schema.Error<TooManyRequests>("TooManyRequests")(fields, { httpApiStatus: 429 }) {}

export class BadGateway extends Schema.Error<BadGateway>("BadGateway")(fields, { httpApiStatus: 502 }) {}

export class ServiceUnavailable
  extends Schema.Error<ServiceUnavailable>("ServiceUnavailable")(fields, { httpApiStatus: 503 })
{}

/** The run is not the task's current one, or the task has ended. */
export class RunConflict extends Schema.Error<RunConflict>("RunConflict")({
  ...fields,
  status: Schema.String.annotate({ description: "Status of the task." })
}, { httpApiStatus: 409 }) {}

/** A 422 for one field. */
export const invalid = (field: string, message: string): ValidationFailed =>
  new ValidationFailed({ message: `${field}: ${message}`, errors: { [field]: [message] } })

/** The errors of operations with a body. */
export const bodyErrors = [RequestTimeout, UnsupportedMediaType, ValidationFailed] as const
export const jsonErrors = [...bodyErrors, PayloadTooLarge, ServiceUnavailable] as const
