/** The part of the backend that talks to models: turns of assistants, and transcripts. A service without a model does not load it. */
import { Effect, Stream } from "effect"
import { HttpClient } from "effect/http"
import type { CreateTurn } from "../AssistantProtocol.ts"
import { BackendRefused } from "../Backend.ts"
import * as Agent from "./Agent.ts"
import * as AgentTools from "./AgentTools.ts"
import * as Assistants from "./Assistants.ts"
import type { BackendOptions } from "./BuiltinBackend.ts"
import * as Conversation from "./Conversation.ts"
import * as OpenAiMedia from "./OpenAiMedia.ts"
import * as OpenAiModel from "./OpenAiModel.ts"

/** Maximum bytes that the transcription endpoint accepts. */
const maxVoiceBytes = 25 * 1024 * 1024

const refused = (status: number, message: string) => new BackendRefused({ status, message })

/** The configuration whose turn it is; 0 means that the request named no model or image generator. */
interface Turn {
  readonly assistant: Assistants.Assistant
  readonly modelId: number
  readonly imageId: number
  readonly chatId: string
  readonly user: string
}

export const make = Effect.fnUntraced(function*({ chats, reader, storage }: BackendOptions) {
  const http = yield* HttpClient.HttpClient
  const modelOf = yield* OpenAiModel.makeModels

  const agentOf = Effect.fnUntraced(function*({ assistant, imageId, modelId, user }: Turn, { options }: CreateTurn) {
    const endpoint = Assistants.pick(assistant.models, modelId)
    const generator = Assistants.pick(assistant.imageGenerators, imageId)
    if (endpoint === undefined) return yield* Effect.die(`assistant ${assistant.id} has no model`)
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

  return {
    /** The lines of a turn; undefined when the results are for calls that the chat did not make. */
    linesOf: Effect.fnUntraced(function*(turn: Turn, request: CreateTurn) {
      const agent = yield* agentOf(turn, request)
      const results = request.tool_results ?? []
      const before = results.length === 0 ? undefined : yield* chats.load(turn.chatId)
      const conversation = results.length === 0
        ? Conversation.start(request)
        : Conversation.resume(before?.messages ?? [], results)
      return conversation &&
        Stream.tap(
          Agent.run(agent, request, conversation, before),
          (line) =>
            line.type === "tool_calls" && line.turn !== undefined
              ? chats.save(turn.user, turn.chatId, line.turn)
              : Effect.void
        )
    }),
    transcribe: Effect.fnUntraced(
      function*(endpoint: OpenAiModel.Endpoint, id: string) {
        const file = yield* storage.find(id)
        if (file.size > maxVoiceBytes) return yield* refused(413, "The recording is too large.")
        return yield* OpenAiMedia.transcribe(endpoint, file.name, yield* storage.read(file))
      },
      Effect.catchTags({
        FileMissing: ({ message }) => refused(404, message),
        AiError: (error) =>
          Effect.andThen(
            Effect.logWarning("transcribing a recording failed", error),
            error.reason._tag === "QuotaExhaustedError"
              ? refused(402, "Payment required.")
              : refused(502, "No transcript.")
          )
      }),
      Effect.provideService(HttpClient.HttpClient, http)
    )
  }
})
