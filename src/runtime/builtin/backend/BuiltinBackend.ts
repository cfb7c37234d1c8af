/**
 * The built-in assistant backend, a separate system that is used only over the protocol in domain/AssistantProtocol.ts. A
 * chat's id contains its assistant and configurations, so chats survive a restart; files and interrupted turns are on disk.
 */
import { Effect, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Ndjson } from "effect/encoding"
import { HttpClient, HttpRouter, HttpServerResponse } from "effect/http"
import { CreateChat, CreateTranscription, CreateTurn, type TurnLine } from "../../../domain/AssistantProtocol.ts"
import * as DemoAssistants from "../demo/DemoAssistants.ts"
import * as HttpHelpers from "../HttpHelpers.ts"
import { respond } from "../HttpHelpers.ts"
import * as Agent from "./Agent.ts"
import * as AgentTools from "./AgentTools.ts"
import * as Assistants from "./Assistants.ts"
import type { FindUser } from "./BackendUsers.ts"
import type { Chats } from "./Chats.ts"
import * as Conversation from "./Conversation.ts"
import type { FileReader } from "./FileReader.ts"
import type { FileStorage } from "./FileStorage.ts"
import * as OpenAiMedia from "./OpenAiMedia.ts"
import * as OpenAiModel from "./OpenAiModel.ts"

export interface BackendOptions {
  readonly storage: FileStorage
  readonly storageUrl: string
  readonly reader: FileReader
  readonly chats: Chats
  readonly assistants: Effect.Effect<Assistants.Assistants>
  /** Whether the demo assistants are available. */
  readonly hasDemo: boolean
  readonly transcription: OpenAiModel.Endpoint | undefined
  readonly findUser: FindUser
}

/** Maximum bytes that the transcription endpoint accepts. */
const maxVoiceBytes = 25 * 1024 * 1024

/** `assistant.model.generator-uuid`; 0 means that the request named none. */
const chatPattern = /^(\d+)\.(\d+)\.(\d+)-[0-9a-f-]{36}$/

const readChat = HttpHelpers.read(CreateChat)
const readTurn = HttpHelpers.read(CreateTurn)
const readTranscription = HttpHelpers.read(CreateTranscription)

const contentType = "application/x-ndjson"

const paymentRequired = respond(402, { message: "Payment required." })
const noSuchAssistant = respond(404, { message: "No such assistant." })

interface Backend extends BackendOptions {
  readonly demo: ReadonlyMap<number, DemoAssistants.DemoAssistant>
  readonly modelOf: Effect.Success<typeof OpenAiModel.makeModels>
}

/** Prepares a turn of an assistant that is configured with models. */
const agentOf = Effect.fnUntraced(function*(
  { modelOf, reader, storage }: Backend,
  user: string,
  assistant: Assistants.Assistant,
  modelId: number,
  imageId: number
) {
  const endpoint = Assistants.pick(assistant.models, modelId)
  const generator = Assistants.pick(assistant.imageGenerators, imageId)
  if (endpoint === undefined) return yield* Effect.die(`assistant ${assistant.id} has no model`)
  const http = yield* HttpClient.HttpClient
  const agent: Agent.Agent = {
    model: yield* modelOf(endpoint),
    modelName: endpoint.model,
    instructions: assistant.instructions,
    maxRounds: assistant.maxRounds,
    tools: [
      AgentTools.readFile(storage, reader, user),
      ...(generator === undefined ? [] : [AgentTools.generateImage(storage, user, http, generator)])
    ],
    loadImage: AgentTools.loadImage(storage)
  }
  return agent
})

/** The lines of a turn; undefined when the chat does not exist, or the results are for calls that it did not make. */
const linesOf = Effect.fnUntraced(function*(
  backend: Backend,
  user: string,
  chatId: string,
  request: CreateTurn
): Effect.fn.Return<Effect.Effect<TurnLine> | Stream.Stream<TurnLine> | undefined, never, HttpClient.HttpClient> {
  const { assistants, chats, demo } = backend
  const [assistantId = 0, modelId = 0, imageId = 0] = chatPattern.exec(chatId)?.slice(1).map(Number) ?? []
  const assistant = (yield* assistants).get(assistantId)
  if (assistant === undefined || demo.has(assistantId)) return demo.get(assistantId)?.(request, user)
  const agent = yield* agentOf(backend, user, assistant, modelId, imageId)
  const results = request.tool_results ?? []
  const before = results.length === 0 ? undefined : yield* chats.load(chatId)
  const conversation = results.length === 0
    ? Conversation.start(request)
    : Conversation.resume(before?.messages ?? [], results)
  return conversation &&
    Stream.tap(
      Agent.run(agent, request, conversation, before),
      (line) =>
        line.type === "tool_calls" && line.turn !== undefined ? chats.save(user, chatId, line.turn) : Effect.void
    )
})

const transcribe = ({ storage, transcription }: BackendOptions) =>
  Effect.gen(function*() {
    const { file: { id } } = yield* readTranscription
    if (transcription === undefined) return respond(501, { message: "No transcription is configured." })
    const file = yield* storage.find(id)
    if (file.size > maxVoiceBytes) return respond(413, { message: "The recording is too large." })
    return respond(200, { text: yield* OpenAiMedia.transcribe(transcription, file.name, yield* storage.read(file)) })
  }).pipe(
    Effect.catchTags({
      FileMissing: ({ message }) => Effect.succeed(respond(404, { message })),
      AiError: (error) =>
        Effect.as(
          Effect.logWarning("transcribing a recording failed", error),
          error.reason._tag === "QuotaExhaustedError" ? paymentRequired : respond(502, { message: "No transcript." })
        )
    })
  )

/** The routes that the gateway and the core call. */
export const layer = (options: BackendOptions) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const { assistants, findUser, hasDemo, reader, storage, storageUrl } = options
    const random = yield* SecureRandom.SecureRandom
    const http = yield* HttpClient.HttpClient
    const demo: Backend["demo"] = hasDemo ? DemoAssistants.make(storage, reader) : new Map()
    const backend = { ...options, demo, modelOf: yield* OpenAiModel.makeModels }

    const createChat = Effect.gen(function*() {
      const { assistant_id, image_generator_id, llm_model_id } = yield* readChat
      if (hasDemo && assistant_id === DemoAssistants.ids.insufficientBalance) return paymentRequired
      if (hasDemo && assistant_id === DemoAssistants.ids.neverAccepts) return yield* Effect.never
      if (!demo.has(assistant_id) && !(yield* assistants).has(assistant_id)) return noSuchAssistant
      const configuration = `${assistant_id}.${llm_model_id ?? 0}.${image_generator_id ?? 0}`
      return respond(201, { id: `${configuration}-${yield* random.uuidV4()}` })
    })

    const createTurn = Effect.fnUntraced(function*(user: string) {
      const { chatId = "" } = yield* HttpRouter.params
      const lines = yield* linesOf(backend, user, chatId, yield* readTurn)
      if (lines === undefined) return respond(404, { message: "No such chat, or no such calls in it." })
      // A single line needs no stream.
      if (Effect.isEffect(lines)) return HttpServerResponse.text(`${JSON.stringify(yield* lines)}\n`, { contentType })
      return HttpServerResponse.stream(Stream.pipeThroughChannel(lines, Ndjson.encode()), { contentType })
    }, Effect.provideService(HttpClient.HttpClient, http))

    const createTranscription = Effect.provideService(transcribe(options), HttpClient.HttpClient, http)

    const handler = HttpHelpers.handler(findUser)
    yield* router.add("POST", "/chats", handler(() => createChat))
    yield* router.add("POST", "/chats/:chatId/turns", handler(createTurn))
    yield* router.add("POST", "/transcriptions", handler(() => createTranscription))
    yield* router.add("GET", "/storage/base", handler(() => Effect.succeed(respond(200, { url: storageUrl }))))
    yield* router.add("POST", "/files", handler(storage.upload))
  }))
