/** The HTTP routes of the built-in backend. */
import { Effect, Stream } from "effect"
import { Ndjson } from "effect/encoding"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { CreateChat, CreateTranscription, CreateTurn } from "../AssistantProtocol.ts"
import type { Backend, BackendFailed, BackendRefused, Caller } from "../Backend.ts"
import * as HttpHelpers from "../HttpHelpers.ts"
import { respond } from "../HttpHelpers.ts"
import type { FindUser } from "./BackendUsers.ts"
import type { FileStorage } from "./FileStorage.ts"

const readChat = HttpHelpers.read(CreateChat)
const readTurn = HttpHelpers.read(CreateTurn)
const readTranscription = HttpHelpers.read(CreateTranscription)

const contentType = "application/x-ndjson"

/** The built-in backend only refuses calls. */
const refusals = {
  BackendRefused: ({ message, status }: BackendRefused) => Effect.succeed(respond(status, { message })),
  BackendFailed: (error: BackendFailed) => Effect.die(error)
}

/** The calls of a gateway: files, and the list of assistants. `storageUrl` is the public base of downloads. */
export const layerFiles = (
  { assistants, findUser, storage, storageUrl }: {
    readonly assistants: Effect.Effect<ReadonlyArray<object>>
    readonly findUser: FindUser
    readonly storage: FileStorage
    readonly storageUrl: string
  }
) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const handler = HttpHelpers.handler(findUser)
    yield* router.add("GET", "/storage/base", handler(() => Effect.succeed(respond(200, { url: storageUrl }))))
    yield* router.add("POST", "/files", handler(storage.upload))
    yield* router.add("GET", "/assistants", handler(() => Effect.map(assistants, (data) => respond(200, { data }))))
  }))

/** The calls of a core: chats, turns and transcriptions. */
export const layerTurns = ({ backend, findUser }: { readonly backend: Backend; readonly findUser: FindUser }) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const findCaller = (token: string) =>
      Effect.map(findUser(token), (sub): Caller | undefined => sub === undefined ? undefined : { sub, token })
    const handler = HttpHelpers.handler(findCaller)

    const createChat = Effect.fnUntraced(function*(caller: Caller) {
      return respond(201, { id: yield* backend.createChat(caller, yield* readChat) })
    }, Effect.catchTags(refusals))

    const createTurn = Effect.fnUntraced(function*(caller: Caller) {
      const { chatId = "" } = yield* HttpRouter.params
      const lines = yield* backend.createTurn(caller, chatId, yield* readTurn)
      if (Stream.isStream(lines)) {
        const sent = Stream.filter(lines, ({ type }) => type !== "text")
        return HttpServerResponse.stream(Stream.pipeThroughChannel(sent, Ndjson.encode()), { contentType })
      }
      const texts = Array.from(yield* Effect.all(lines), (line) => `${JSON.stringify(line)}\n`)
      return HttpServerResponse.text(texts.join(""), { contentType })
    }, Effect.catchTags(refusals))

    const createTranscription = Effect.fnUntraced(function*(caller: Caller) {
      const { file } = yield* readTranscription
      return respond(200, { text: yield* backend.transcribe(caller, file) })
    }, Effect.catchTags(refusals))

    yield* router.add("POST", "/chats", handler(createChat))
    yield* router.add("POST", "/chats/:chatId/turns", handler(createTurn))
    yield* router.add("POST", "/transcriptions", handler(createTranscription))
  }))
