/** Calls to the built-in systems: with a token, a bounded JSON body, and refused in words. */
import { ByteSize, Effect, type Schema } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"

/** A task with its whole conversation, and room to spare. */
const maxBytes = ByteSize.mebibytes(64)

export const answer = (status: number, body: object) => HttpServerResponse.jsonUnsafe(body, { status })

export const read = <A, I>(schema: Schema.Codec<A, I>) =>
  Effect.provideService(HttpServerRequest.schemaBodyJson(schema), HttpIncomingMessage.MaxBodySize, maxBytes)

/** The handler of a call; `isAllowed` is asked about the bearer token, or the empty text when there is none. */
export const handler = (isAllowed: (token: string) => boolean) =>
<R>(
  answering: Effect.Effect<
    HttpServerResponse.HttpServerResponse,
    Schema.SchemaError | HttpServerError.HttpServerError,
    R
  >
) =>
  Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) => {
    const [, token = ""] = /^bearer +(.+)$/i.exec(headers["authorization"] ?? "") ?? []
    return isAllowed(token) ? answering : Effect.succeed(answer(401, { message: "No token." }))
  }).pipe(
    Effect.catchTags({
      SchemaError: ({ message }) => Effect.succeed(answer(422, { message, errors: {} })),
      HttpServerError: () => Effect.succeed(answer(400, { message: "The body could not be read." }))
    })
  )
