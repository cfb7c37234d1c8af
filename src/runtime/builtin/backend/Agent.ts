/**
 * One turn of a model: rounds of calling the model and running its tool calls, until it makes none. Calls of client tools end
 * the turn. A call with invalid arguments gets an error result for the model and never reaches the client.
 */
import { Array as Arr, Effect, Predicate, Schedule, Schema, Stream } from "effect"
import { type AiError, type LanguageModel, type Response, Tool, Toolkit } from "effect/ai"
import type { CreateTurn, TurnLine } from "../../../domain/AssistantProtocol.ts"
import type { JsonObject } from "../../../domain/OpaqueJson.ts"
import { ClientTool } from "../../../domain/TaskRequest.ts"
import type { ToolCall } from "../../../domain/ToolCall.ts"
import * as Conversation from "./Conversation.ts"
import type { Message, Turn } from "./Conversation.ts"
import { retry, tooLong } from "./OpenAiModel.ts"
import { problemsOf } from "./ToolArguments.ts"

/** The result of a tool call: `content` is for the model, `output` is added to the turn's output. */
export interface ToolAnswer {
  readonly content: string | ReadonlyArray<JsonObject>
  readonly isError?: true
  readonly output?: JsonObject
}

/** Any failure whose message is returned to the model. */
type WithMessage = { readonly message: string }

/** A tool call failed. */
export class ToolFailed extends Schema.TaggedError<ToolFailed>()("ToolFailed", { message: Schema.String }) {}

/** A tool that the backend runs, not the client. */
export interface OwnTool {
  readonly tool: Tool.Any
  readonly run: (parameters: JsonObject) => Effect.Effect<ToolAnswer, WithMessage>
}

export interface Agent {
  readonly model: LanguageModel.LanguageModel
  /** The model's name, for `metadata`. */
  readonly modelName: string
  readonly instructions: string
  readonly maxRounds: number
  readonly tools: ReadonlyArray<OwnTool>
  readonly loadImage: Conversation.LoadImage
}

/** The turn failed; the message is safe to show to the client. */
class TurnFailed extends Schema.TaggedError<TurnFailed>()("TurnFailed", { message: Schema.String }) {}

/** Maximum characters of one response of the model. */
const maxCharacters = 1_000_000

/** Maximum characters that a turn adds to its conversation: text of the model, tool calls and their results. */
const maxAddedCharacters = 8_000_000

/** Maximum messages and tool calls of a conversation; each takes time in every round. */
const maxMessages = 10_000

/** Maximum characters of progress per second. Each report repeats the turn, so a larger turn is reported less often. */
const progressCharacters = 1024 * 1024

/** Backend tools of one round that run concurrently. */
const toolConcurrency = 4

type Failure = AiError.AiError | TurnFailed | Schema.SchemaError
type Reason = Pick<Extract<TurnLine, { type: "failed" }>, "code" | "message">

const reasons: { readonly [Tag in AiError.AiErrorReason["_tag"]]?: Reason } = {
  QuotaExhaustedError: { code: "payment_required" },
  RateLimitError: { message: "The model is too busy" },
  InvalidRequestError: { message: "The model does not accept this conversation" }
}

/** The part of a failure that clients may see; the provider's messages appear only in the log. */
const reasonOf = (error: Failure): Reason => {
  if (error._tag === "TurnFailed") return { message: error.message }
  if (error._tag !== "AiError") return {}
  const { reason } = error
  return reason._tag === "UnknownError" && reason.description === tooLong
    ? { message: tooLong }
    : reasons[reason._tag] ?? {}
}

const isClientTool = Schema.is(ClientTool)

const toTool = ({ description, name, parameters, strict }: ClientTool): Tool.Any => {
  const tool = Tool.dynamic(name, {
    ...(description ? { description } : {}),
    parameters: parameters ?? { type: "object", properties: {} }
  })
  return strict === true ? tool.annotate(Tool.Strict, true) : tool
}

/** Key for arguments that are not a JSON object, so that the model sees what it sent. */
const unreadable = "unreadable_arguments"

const toCall = (id: string, name: string, params: unknown): ToolCall => ({
  id,
  name,
  arguments: Predicate.isObject(params) ? params as JsonObject : { [unreadable]: String(params) }
})

/** The toolkit only describes the tools to the model; its handlers never run, so none are required. */
type Parts = Stream.Stream<Response.StreamPart<Record<string, Tool.Any>, "deferred">, Failure>

/** The lines of one turn that continues `conversation`; `before` is the turn of the previous run, after tool results. */
export const run = (
  agent: Agent,
  request: CreateTurn,
  conversation: ReadonlyArray<Message>,
  before: Turn | undefined
) => {
  const clientTools = request.client_tools.filter(isClientTool)
  const schemas = new Map(clientTools.map(({ name, parameters }) => [name, parameters ?? {}]))
  const ownTools = new Map(agent.tools.flatMap((own) => schemas.has(own.tool.name) ? [] : [[own.tool.name, own]]))
  const toolkit = Toolkit.make(...clientTools.map(toTool), ...Array.from(ownTools.values(), ({ tool }) => tool))

  let messages = conversation
  let images = before?.output.filter(({ type }) => type === "image") ?? []
  let usage = before?.metadata.usage ?? { input_tokens: 0, output_tokens: 0, total_tokens: 0 }
  let text = ""
  let isStreaming = false
  let finish = "in_progress"
  const startSize = JSON.stringify(conversation).length
  let added = 0

  const turn = (): Turn => ({
    output: [...(text === "" ? [] : [{ type: "text", text }]), ...images],
    messages: isStreaming && text !== "" ? [...messages, { role: "assistant", content: text }] : messages,
    metadata: { model: agent.modelName, finish_reason: finish, usage }
  })

  const add = ({ reason, usage: { inputTokens, outputTokens } }: Response.FinishPart) => {
    const [input, output] = [inputTokens.total ?? 0, outputTokens.total ?? 0]
    usage = {
      input_tokens: usage.input_tokens + input,
      output_tokens: usage.output_tokens + output,
      total_tokens: usage.total_tokens + input + output
    }
    return reason.replaceAll("-", "_")
  }

  /** Calls the model once. A retry discards the text of the failed attempt. */
  const callModel = Effect.fnUntraced(
    function*() {
      text = ""
      isStreaming = true
      let reason = "unknown"
      const calls: Array<ToolCall> = []
      const parts = agent.model.streamText({
        prompt: yield* Conversation.toPrompt(agent.instructions, messages, agent.loadImage),
        toolkit,
        disableToolCallResolution: true,
        toolCallValidation: "deferred"
      }) as Parts
      yield* Stream.runForEachArray(parts, (some) =>
        Effect.suspend(() => {
          for (const part of some) {
            if (part.type === "text-delta") text += part.delta
            if (part.type === "tool-call") calls.push(toCall(part.id, part.name, part.params))
            if (part.type === "finish") reason = add(part)
          }
          return text.length > maxCharacters ? new TurnFailed({ message: tooLong }) : Effect.void
        }))
      return { calls, reason }
    },
    retry
  )

  /** Runs a tool call or reports its error; undefined for a valid call of a client tool. */
  const answer = Effect.fnUntraced(
    function*(call: ToolCall) {
      if (unreadable in call.arguments) {
        return yield* new ToolFailed({ message: "The arguments are not a JSON object." })
      }
      const schema = schemas.get(call.name)
      if (schema !== undefined) {
        // Each check runs in its own turn of the event loop, so that many calls do not block it.
        yield* Effect.yieldNow
        const problems = problemsOf(schema, call.arguments)
        return problems.length === 0 ? undefined : yield* new ToolFailed({ message: problems.join("\n") })
      }
      const own = ownTools.get(call.name)
      return yield* own?.run(call.arguments) ?? new ToolFailed({ message: `There is no tool ${call.name}.` })
    },
    Effect.catch(({ message }) => Effect.succeed<ToolAnswer>({ content: message, isError: true }))
  )

  const rounds: () => Effect.Effect<TurnLine, Failure> = Effect.fnUntraced(function*() {
    if (Conversation.roundsOf(messages) >= agent.maxRounds) {
      return yield* new TurnFailed({ message: `The assistant did not finish within ${agent.maxRounds} rounds` })
    }
    if (Conversation.lengthOf(messages) > maxMessages) {
      return yield* new TurnFailed({ message: "The conversation has too many messages" })
    }
    const { calls, reason } = yield* callModel()
    const reply = { role: "assistant", content: text } as const
    isStreaming = false
    if (calls.length === 0) {
      messages = [...messages, reply]
      finish = reason
      return { type: "completed", turn: turn() }
    }
    messages = [...messages, { ...reply, tool_calls: calls }]
    const answers = yield* Effect.forEach(calls, answer, { concurrency: toolConcurrency })
    const pending = calls.filter((_, index) => answers[index] === undefined)
    const answered = Arr.zip(calls, answers).flatMap(([{ id }, given]) => given === undefined ? [] : [{ id, ...given }])
    messages = [...messages, ...answered.map(({ content, id, isError }) => Conversation.answerTo(id, content, isError))]
    images = [...images, ...answered.map(({ output }) => output).filter(Predicate.isNotUndefined)]
    added += JSON.stringify([text, calls, answers]).length
    if (added > maxAddedCharacters) return yield* new TurnFailed({ message: tooLong })
    if (!Arr.isArrayNonEmpty(pending)) return yield* rounds()
    finish = "tool_calls"
    return { type: "tool_calls", tool_calls: pending, turn: turn() }
  })

  /** Reports the partial turn when it has grown, at most once a second and at most `progressCharacters` a second. */
  const progress = Stream.fromSchedule(Schedule.spaced("1 second")).pipe(
    Stream.filter((second) => second % Math.ceil((1 + startSize + added + text.length) / progressCharacters) === 0),
    Stream.map(() => `${messages.length} ${text.length}`),
    Stream.changes,
    Stream.filter((seen) => seen !== `${conversation.length} 0`),
    Stream.map((): TurnLine => ({ type: "progress", turn: turn() }))
  )

  const last = rounds().pipe(
    Effect.tapError((error) => Effect.logWarning("a turn failed", error)),
    Effect.catch((error) => Effect.succeed<TurnLine>({ type: "failed", ...reasonOf(error), turn: turn() }))
  )
  return Stream.merge(Stream.fromEffect(last), progress, { haltStrategy: "left" })
}
