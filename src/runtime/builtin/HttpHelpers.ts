/** Helpers of the built-in systems' HTTP handlers: bearer tokens, bounded JSON bodies, error responses. */
import { ByteSize, Effect, Predicate, Schema } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { fromJsonText } from "../../domain/json/OpaqueJson.ts"
import { bearerOf } from "../../http/handlers/Authorization.ts"

/** Enough for a task with its whole conversation. */
const maxBytes = ByteSize.mebibytes(64)

/** We reject every other content type, because a page of another origin can send simple types without a CORS preflight. */
class NotJson extends Schema.TaggedError<NotJson>()("NotJson", {}) {}

export const respond = (status: number, body: object) => HttpServerResponse.jsonUnsafe(body, { status })

/** The JSON body of a call, within `maxBytes`. Use it once for each schema, which it compiles. */
export const read = <A, I>(schema: Schema.Codec<A, I>) => {
  const decode = Schema.decodeUnknownEffect(fromJsonText(schema))
  return HttpServerRequest.HttpServerRequest.pipe(
    Effect.filterOrFail(
      ({ headers }) => /^application\/json *(;|$)/i.test(headers["content-type"] ?? ""),
      () => new NotJson()
    ),
    Effect.flatMap(({ text }) => text),
    Effect.flatMap(decode),
    Effect.provideService(HttpIncomingMessage.MaxBodySize, maxBytes)
  )
}

/**
 * The handler of a call. `authenticate` finds the caller by the bearer token. Without a token or a caller the response is 401
 * and the body is not read.
 */
export const handler = <Caller>(authenticate: (token: string) => Effect.Effect<Caller | undefined>) =>
<R>(
  answering: (
    caller: Caller
  ) => Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    Schema.SchemaError | HttpServerError.HttpServerError | NotJson,
    R
  >
) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
    const token = bearerOf(request)
    return token === "" ? Effect.undefined : authenticate(token)
  }).pipe(
    Effect.flatMap((caller) =>
      Predicate.isUndefined(caller) ? Effect.succeed(respond(401, { message: "No valid token." })) : answering(caller)
    ),
    Effect.catchTags({
      NotJson: () => Effect.succeed(respond(415, { message: "The body must be application/json." })),
      SchemaError: ({ message }) => Effect.succeed(respond(422, { message, errors: {} })),
      HttpServerError: () => Effect.succeed(respond(400, { message: "The body could not be read." }))
    })
  )
