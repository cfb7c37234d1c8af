/**
 * The built-in assistant backend, a separate system that is used only by the calls of AssistantProtocol.ts. A chat's
 * id contains its assistant and configurations, so chats survive a restart; files and interrupted turns are on disk.
 */
import { Effect } from "effect"
import { SecureRandom } from "effect/crypto"
import { type Backend, BackendRefused } from "../Backend.ts"
import * as DemoAssistants from "../demo/DemoAssistants.ts"
import type { Assistants } from "./Assistants.ts"
import type { Chats } from "./Chats.ts"
import type { FileReader } from "./FileReader.ts"
import type { FileStorage } from "./FileStorage.ts"
import type { Endpoint } from "./OpenAiModel.ts"

export interface BackendOptions {
  readonly storage: FileStorage
  readonly reader: FileReader
  readonly chats: Chats
  readonly assistants: Effect.Effect<Assistants>
  /** True if the demo assistants are available. */
  readonly hasDemo: boolean
  readonly transcription: Endpoint | undefined
}

/** `assistant.model.generator-uuid`; 0 means that the request named none. */
const chatPattern = /^(\d+)\.(-?\d+)\.(-?\d+)-[0-9a-f-]{36}$/

const paymentRequired = new BackendRefused({ status: 402, message: "Payment required." })
const noSuchAssistant = new BackendRefused({ status: 404, message: "No such assistant." })
const noSuchChat = new BackendRefused({ status: 404, message: "No such chat, or no such calls in it." })
const noTranscription = new BackendRefused({ status: 501, message: "No transcription is configured." })

/** The assistants as `GET /assistants` lists them. */
export const list = ({ assistants, hasDemo }: Pick<BackendOptions, "assistants" | "hasDemo">) =>
  Effect.map(assistants, (configured): ReadonlyArray<object> => [
    ...(hasDemo ? DemoAssistants.described : []),
    ...Array.from(configured.values(), ({ id, name }) => ({ id, name }))
  ])

export const make = Effect.fnUntraced(function*(options: BackendOptions) {
  const { assistants, hasDemo, reader, storage, transcription } = options
  const random = yield* SecureRandom.SecureRandom
  const demo = hasDemo ? DemoAssistants.make(storage, reader) : new Map<number, DemoAssistants.DemoAssistant>()
  // Without a model the service does not load what talks to models: 200 kB of source.
  const models = transcription === undefined && (yield* assistants).size === 0
    ? undefined
    : yield* Effect.flatMap(Effect.promise(() => import("./Models.ts")), ({ make }) => make(options))

  const backend: Backend = {
    createChat: Effect.fnUntraced(function*(_, { assistant_id, image_generator_id, llm_model_id }) {
      if (hasDemo && assistant_id === DemoAssistants.ids.insufficientBalance) return yield* paymentRequired
      if (hasDemo && assistant_id === DemoAssistants.ids.neverAccepts) return yield* Effect.never
      if (!demo.has(assistant_id) && !(yield* assistants).has(assistant_id)) return yield* noSuchAssistant
      const configuration = `${assistant_id}.${llm_model_id ?? 0}.${image_generator_id ?? 0}`
      return `${configuration}-${yield* random.uuidV4()}`
    }),
    createTurn: Effect.fnUntraced(function*({ sub }, chat, request) {
      const chatId = String(chat)
      const [assistantId = 0, modelId = 0, imageId = 0] = chatPattern.exec(chatId)?.slice(1).map(Number) ?? []
      const assistant = (yield* assistants).get(assistantId)
      const lines = assistant === undefined || models === undefined || demo.has(assistantId)
        ? demo.get(assistantId)?.(request, sub)
        : yield* models.linesOf({ assistant, modelId, imageId, chatId, user: sub }, request)
      if (lines === undefined) return yield* noSuchChat
      return Effect.isEffect(lines) ? [Effect.succeed(yield* lines)] : lines
    }),
    transcribe: (_, { id }) =>
      models === undefined || transcription === undefined ? noTranscription : models.transcribe(transcription, id)
  }
  return backend
})
