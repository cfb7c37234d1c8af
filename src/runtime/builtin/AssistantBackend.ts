/**
 * The built-in assistant backend: another system played by us, known only by the wire of CONTRACT 5. It keeps files in a
 * folder and nothing else: a chat's id carries its assistant, so that chats outlive a restart.
 */
import { Effect, type Schema, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { CreateChat, CreateTurn } from "../../domain/AssistantProtocol.ts"
import * as DemoAssistants from "./DemoAssistants.ts"
import type * as FileStorage from "./FileStorage.ts"

const { ids } = DemoAssistants

const answer = (status: number, body: object) => HttpServerResponse.jsonUnsafe(body, { status })

const isAuthorized = Effect.map(
  HttpServerRequest.HttpServerRequest,
  ({ headers }) => /^bearer .+/i.test(headers["authorization"] ?? "")
)

/** Every call comes with the user's own token; whether it is valid the service has seen to. */
const authorized = <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
  Effect.flatMap(isAuthorized, (yes) => yes ? handler : Effect.succeed(answer(401, { message: "No token." })))

const invalidBody = {
  SchemaError: (error: Schema.SchemaError) => Effect.succeed(answer(422, { message: error.message, errors: {} })),
  HttpServerError: () => Effect.succeed(answer(400, { message: "The body could not be read." }))
}

const createChat = (random: SecureRandom.SecureRandom["Service"]) =>
  Effect.gen(function*() {
    const { assistant_id } = yield* HttpServerRequest.schemaBodyJson(CreateChat)
    if (assistant_id === ids.insufficientBalance) return answer(402, { message: "Payment required." })
    if (assistant_id === ids.neverAccepts) return yield* Effect.never
    if (!DemoAssistants.known.includes(assistant_id)) return answer(404, { message: "No such assistant." })
    return answer(201, { id: `${assistant_id}-${yield* random.uuidV4()}` })
  }).pipe(Effect.catchTags(invalidBody))

const createTurn = (storage: FileStorage.FileStorage) =>
  Effect.gen(function*() {
    const { chatId = "" } = yield* HttpRouter.params
    const assistantId = Number(chatId.split("-", 1)[0])
    if (!DemoAssistants.known.includes(assistantId)) return answer(404, { message: "No such chat." })
    const request = yield* HttpServerRequest.schemaBodyJson(CreateTurn)
    const lines = DemoAssistants.answer(assistantId, request, storage.describe).pipe(
      Stream.map((line) => `${JSON.stringify(line)}\n`),
      Stream.encodeText
    )
    return HttpServerResponse.stream(lines, { contentType: "application/x-ndjson" })
  }).pipe(Effect.catchTags(invalidBody))

/** The private half of the wire, which the gateway and the core call. */
export const layer = (options: { readonly storage: FileStorage.FileStorage; readonly storageUrl: string }) =>
  HttpRouter.use((router) =>
    Effect.gen(function*() {
      const random = yield* SecureRandom.SecureRandom
      yield* router.add("POST", "/chats", authorized(createChat(random)))
      yield* router.add("POST", "/chats/:chatId/turns", authorized(createTurn(options.storage)))
      yield* router.add("GET", "/storage/base", authorized(Effect.succeed(answer(200, { url: options.storageUrl }))))
      yield* router.add("POST", "/files", authorized(options.storage.upload))
    })
  )
