/** JSON bodies of the calls to the built-in systems: bounded, and refused in words. */
import { ByteSize, Effect, type Schema } from "effect"
import { HttpIncomingMessage, HttpServerRequest, HttpServerResponse } from "effect/http"

/** A task with its whole conversation, and room to spare. */
const maxBytes = ByteSize.mebibytes(64)

export const answer = (status: number, body: object) => HttpServerResponse.jsonUnsafe(body, { status })

export const read = <A, I>(schema: Schema.Codec<A, I>) =>
  Effect.provideService(HttpServerRequest.schemaBodyJson(schema), HttpIncomingMessage.MaxBodySize, maxBytes)

/** What a body that cannot be used is answered with. */
export const refusals = {
  SchemaError: (error: Schema.SchemaError) => Effect.succeed(answer(422, { message: error.message, errors: {} })),
  HttpServerError: () => Effect.succeed(answer(400, { message: "The body could not be read." }))
}
