/** Public errors: each is `{message, code}` with its status, and 422 adds `errors`. */
import { Effect, Schema } from "effect"
import { codeOfStatus } from "./ErrorCodes.ts"

/** The fields of every error. Its `code` is the one of its status, unless the error says more. */
export const errorFields = (status: number) => ({
  message: Schema.String.annotate({ description: "The problem in words." }),
  code: Schema.String.annotate({
    description: "A stable word for the problem, as in `too_many_active_tasks`. More may be added."
  }).pipe(Schema.withConstructorDefault(Effect.succeed(codeOfStatus(status))))
})

export class Unauthorized
  extends Schema.Error<Unauthorized>("Unauthorized")(errorFields(401), { httpApiStatus: 401 })
{}

export class Forbidden extends Schema.Error<Forbidden>("Forbidden")(errorFields(403), { httpApiStatus: 403 }) {}

export class NotFound extends Schema.Error<NotFound>("NotFound")(errorFields(404), { httpApiStatus: 404 }) {}

export class RequestTimeout
  extends Schema.Error<RequestTimeout>("RequestTimeout")(errorFields(408), { httpApiStatus: 408 })
{}

export class Conflict extends Schema.Error<Conflict>("Conflict")(errorFields(409), { httpApiStatus: 409 }) {}

export class PayloadTooLarge
  extends Schema.Error<PayloadTooLarge>("PayloadTooLarge")(errorFields(413), { httpApiStatus: 413 })
{}

/** The body is compressed or has another unsupported `Content-Encoding`. */
export class UnsupportedMediaType
  extends Schema.Error<UnsupportedMediaType>("UnsupportedMediaType")(errorFields(415), { httpApiStatus: 415 })
{}

/** `errors` maps a dotted field path, as in `input.0.type`, to messages; `body` is the path of the whole body. */
export class ValidationFailed extends Schema.Error<ValidationFailed>("ValidationFailed")({
  ...errorFields(422),
  errors: Schema.Record(Schema.String, Schema.Array(Schema.String)).annotate({
    description:
      "Maps the dotted path of each invalid field, as in `input.0.type`, to its messages; `body` is the whole body."
  })
}, { httpApiStatus: 422 }) {}

export class TooManyRequests
  extends Schema.Error<TooManyRequests>("TooManyRequests")(errorFields(429), { httpApiStatus: 429 })
{}

export class BadGateway extends Schema.Error<BadGateway>("BadGateway")(errorFields(502), { httpApiStatus: 502 }) {}

export class ServiceUnavailable
  extends Schema.Error<ServiceUnavailable>("ServiceUnavailable")(errorFields(503), { httpApiStatus: 503 })
{}

/** The run is not the task's current one, or the task has ended. */
export class RunConflict extends Schema.Error<RunConflict>("RunConflict")({
  ...errorFields(409),
  status: Schema.String.annotate({ description: "Status of the task." })
}, { httpApiStatus: 409 }) {}

/** A 422 for one field. */
export const invalid = (field: string, message: string, code: string = codeOfStatus(422)): ValidationFailed =>
  new ValidationFailed({ message: `${field}: ${message}`, code, errors: { [field]: [message] } })

/** The errors of operations with a body. */
export const bodyErrors = [RequestTimeout, UnsupportedMediaType, ValidationFailed] as const
export const jsonErrors = [...bodyErrors, PayloadTooLarge, ServiceUnavailable] as const
