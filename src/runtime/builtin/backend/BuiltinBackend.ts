/**
 * The built-in assistant backend, a separate system that is used only by the calls of AssistantProtocol.ts. A chat's
 * id contains its assistant and configurations, so chats survive a restart; files and interrupted turns are on disk.
 */
import { Effect, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient } from "effect/http"
import type { CreateTurn, TurnLine } from "../AssistantProtocol.ts"
import { type Backend, BackendRefused, type TextLine } from "../Backend.ts"
import * as DemoAssistants from "../demo/DemoAssistants.ts"
import * as Agent from "./Agent.ts"
import * as AgentTools from "./AgentTools.ts"
import * as Assistants from "./Assistants.ts"
import type { Chats } from "./Chats.ts"
import * as Conversation from "./Conversation.ts"
import type { FileReader } from "./FileReader.ts"
import type { FileStorage } from "./FileStorage.ts"
import * as OpenAiMedia from "./OpenAiMedia.ts"
import * as OpenAiModel from "./OpenAiModel.ts"

export interface BackendOptions {
  readonly storage: FileStorage
  readonly reader: FileReader
  readonly chats: Chats
  readonly assistants: Effect.Effect<Assistants.Assistants>
  /** True if the demo assistants are available. */
  readonly hasDemo: boolean
  readonly transcription: OpenAiModel.Endpoint | undefined
}

/** Maximum bytes that the transcription endpoint accepts. */
const maxVoiceBytes = 25 * 1024 * 1024

/** `assistant.model.generator-uuid`; 0 means that the request named none. */
const chatPattern = /^(\d+)\.(-?\d+)\.(-?\d+)-[0-9a-f-]{36}$/

const refused = (status: number, message: string) => new BackendRefused({ status, message })

const paymentRequired = refused(402, "Payment required.")
const noSuchAssistant = refused(404, "No such assistant.")
const noSuchChat = refused(404, "No such chat, or no such calls in it.")

interface Prepared extends BackendOptions {
  readonly demo: ReadonlyMap<number, DemoAssistants.DemoAssistant>
  readonly modelOf: Effect.Success<typeof OpenAiModel.makeModels>
}

/** Prepares a turn of an assistant that is configured with models. */
const agentOf = Effect.fnUntraced(function*(
  { modelOf, reader, storage }: Prepared,
  user: string,
  assistant: Assistants.Assistant,
  modelId: number,
  imageId: number,
  options: CreateTurn["options"]
) {
  const endpoint = Assistants.pick(assistant.models, modelId)
  const generator = Assistants.pick(assistant.imageGenerators, imageId)
  if (endpoint === undefined) return yield* Effect.die(`assistant ${assistant.id} has no model`)
  const http = yield* HttpClient.HttpClient
  const agent: Agent.Agent = {
    model: yield* modelOf(OpenAiModel.withOptions(endpoint, options)),
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
  backend: Prepared,
  user: string,
  chatId: string,
  request: CreateTurn
): Effect.fn.Return<
  Effect.Effect<TurnLine> | Stream.Stream<TurnLine | TextLine> | undefined,
  never,
  HttpClient.HttpClient
> {
  const { assistants, chats, demo } = backend
  const [assistantId = 0, modelId = 0, imageId = 0] = chatPattern.exec(chatId)?.slice(1).map(Number) ?? []
  const assistant = (yield* assistants).get(assistantId)
  if (assistant === undefined || demo.has(assistantId)) return demo.get(assistantId)?.(request, user)
  const agent = yield* agentOf(backend, user, assistant, modelId, imageId, request.options)
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
  Effect.fnUntraced(
    function*(id: string) {
      if (transcription === undefined) return yield* refused(501, "No transcription is configured.")
      const file = yield* storage.find(id)
      if (file.size > maxVoiceBytes) return yield* refused(413, "The recording is too large.")
      return yield* OpenAiMedia.transcribe(transcription, file.name, yield* storage.read(file))
    },
    Effect.catchTags({
      FileMissing: ({ message }) => refused(404, message),
      AiError: (error) =>
        Effect.andThen(
          Effect.logWarning("transcribing a recording failed", error),
          error.reason._tag === "QuotaExhaustedError" ? paymentRequired : refused(502, "No transcript.")
        )
    })
  )

/** The assistants as `GET /assistants` lists them. */
export const list = ({ assistants, hasDemo }: Pick<BackendOptions, "assistants" | "hasDemo">) =>
  Effect.map(assistants, (configured): ReadonlyArray<object> => [
    ...(hasDemo ? DemoAssistants.described : []),
    ...Array.from(configured.values(), ({ id, name }) => ({ id, name }))
  ])

export const make = Effect.fnUntraced(function*(options: BackendOptions) {
  const { assistants, hasDemo, reader, storage } = options
  const random = yield* SecureRandom.SecureRandom
  const http = yield* HttpClient.HttpClient
  const demo: Prepared["demo"] = hasDemo ? DemoAssistants.make(storage, reader) : new Map()
  const prepared = { ...options, demo, modelOf: yield* OpenAiModel.makeModels }
  const transcribeFile = transcribe(options)

  const backend: Backend = {
    createChat: Effect.fnUntraced(function*(_, { assistant_id, image_generator_id, llm_model_id }) {
      if (hasDemo && assistant_id === DemoAssistants.ids.insufficientBalance) return yield* paymentRequired
      if (hasDemo && assistant_id === DemoAssistants.ids.neverAccepts) return yield* Effect.never
      if (!demo.has(assistant_id) && !(yield* assistants).has(assistant_id)) return yield* noSuchAssistant
      const configuration = `${assistant_id}.${llm_model_id ?? 0}.${image_generator_id ?? 0}`
      return `${configuration}-${yield* random.uuidV4()}`
    }),
    createTurn: Effect.fnUntraced(function*({ sub }, chatId, request) {
      const lines = yield* linesOf(prepared, sub, String(chatId), request)
      if (lines === undefined) return yield* noSuchChat
      return Effect.isEffect(lines) ? [Effect.succeed(yield* lines)] : lines
    }, Effect.provideService(HttpClient.HttpClient, http)),
    transcribe: (_, { id }) => Effect.provideService(transcribeFile(id), HttpClient.HttpClient, http)
  }
  return backend
})
