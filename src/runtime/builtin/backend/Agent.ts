/**
 * One turn of a model: rounds of calling the model and running its tool calls, until it makes none. Calls of client tools end
 * the turn. A call with invalid arguments gets an error result for the model and never reaches the client.
 */
import { Array as Arr, Cause, Duration, Effect, Fiber, Latch, Predicate, Schema, Stream } from "effect"
import { type AiError, type LanguageModel, type Response, Tool, Toolkit } from "effect/ai"
import { isJsonObject, type JsonObject } from "../../../domain/json/OpaqueJson.ts"
import { isPlainTool, type PlainTool } from "../../../domain/TaskRequest.ts"
import { monotonicMillis } from "../../../domain/Timestamp.ts"
import type { ToolCall } from "../../../domain/ToolCall.ts"
import type { CreateTurn, TurnLine } from "../AssistantProtocol.ts"
import type { TextLine } from "../Backend.ts"
import * as Conversation from "./Conversation.ts"
import type { Message, Turn } from "./Conversation.ts"
import { retry } from "./OpenAiModel.ts"
import { pieceInterval, textInterval, tooLong } from "./OpenAiStream.ts"
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

/** Maximum characters of one progress report. A larger turn is reported less often, because each report repeats it. */
const progressCharacters = 1024 * 1024

/** Milliseconds between two progress reports: less than between two texts, so that no text waits for the next one. */
const progressInterval = 0.9 * Duration.toMillis(textInterval)

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

const toTool = ({ description, name, parameters, strict }: PlainTool): Tool.Any => {
  const tool = Tool.dynamic(name, {
    ...(description ? { description } : {}),
    parameters: parameters ?? { type: "object", properties: {} }
  })
  return strict === true ? tool.annotate(Tool.Strict, true) : tool
}

/** Key for arguments that are not a JSON object, so that the model sees what it sent. */
const unreadable = "unreadable_arguments"

/** The service reads ids and names, and refuses NUL and lone surrogates in them. */
const readable = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD")

const toCall = (id: string, name: string, params: unknown): ToolCall => ({
  id: readable(id),
  name: readable(name),
  arguments: isJsonObject(params) ? params : { [unreadable]: String(params) }
})

/** The toolkit only describes the tools to the model; its handlers never run, so none are required. */
type Parts = Stream.Stream<Response.StreamPart<Record<string, Tool.Any>, "deferred">, Failure>

/** The result of a tool call or its error; undefined for a valid call of a client tool, of which `schemas` has the arguments. */
const answerTo = Effect.fnUntraced(
  function*(call: ToolCall, schemas: ReadonlyMap<string, JsonObject>, ownTools: ReadonlyMap<string, OwnTool>) {
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

/** A turn that grows, starting from `messages` and, after tool results, from the turn of the previous run. */
class GrowingTurn {
  readonly modelName: string
  readonly hasGrown = Latch.makeUnsafe()
  readonly hasText = Latch.makeUnsafe()
  messages: ReadonlyArray<Message>
  images: ReadonlyArray<JsonObject>
  usage: Turn["metadata"]["usage"]
  /** The text of the model's current response; that of a failed attempt until another attempt has text. */
  text = ""
  isStreaming = false
  finish = "in_progress"
  /** Characters of the conversation. */
  characters: number

  constructor(modelName: string, messages: ReadonlyArray<Message>, before: Turn | undefined) {
    this.modelName = modelName
    this.messages = messages
    this.images = before?.output.filter(({ type }) => type === "image") ?? []
    this.usage = before?.metadata.usage ?? { input_tokens: 0, output_tokens: 0, total_tokens: 0 }
    this.characters = JSON.stringify(messages).length
  }

  get value(): Turn {
    const { finish, images, isStreaming, messages, modelName, text, usage } = this
    return {
      output: [...(text === "" ? [] : [{ type: "text", text }]), ...images],
      messages: isStreaming && text !== "" ? [...messages, { role: "assistant", content: text }] : messages,
      metadata: { model: modelName, finish_reason: finish, usage }
    }
  }

  addUsage({ usage: { inputTokens, outputTokens } }: Response.FinishPart) {
    const [input, output] = [inputTokens.total ?? 0, outputTokens.total ?? 0]
    const { input_tokens_details: cached, output_tokens_details: reasoning } = this.usage
    this.usage = {
      ...this.usage,
      input_tokens: this.usage.input_tokens + input,
      output_tokens: this.usage.output_tokens + output,
      total_tokens: this.usage.total_tokens + input + output,
      ...(inputTokens.cacheRead === undefined ? {} : {
        input_tokens_details: { cached_tokens: (cached?.cached_tokens ?? 0) + inputTokens.cacheRead }
      }),
      ...(outputTokens.reasoning === undefined ? {} : {
        output_tokens_details: { reasoning_tokens: (reasoning?.reasoning_tokens ?? 0) + outputTokens.reasoning }
      })
    }
  }

  /** Begins a response of the model. */
  startText() {
    if (this.text !== "") this.hasGrown.openUnsafe()
    this.text = ""
    this.isStreaming = true
  }

  growText(text: string) {
    this.text = text
    this.hasGrown.openUnsafe()
    this.hasText.openUnsafe()
  }

  /** Milliseconds until the next progress report. */
  get interval() {
    return progressInterval * Math.ceil((1 + this.characters + this.text.length) / progressCharacters)
  }
}

/** Calls the model until it responds. */
const callModel = Effect.fnUntraced(
  function*(
    { instructions, loadImage, model }: Agent,
    toolkit: Toolkit.Toolkit<Record<string, Tool.Any>>,
    turn: GrowingTurn
  ) {
    let text = ""
    let reason = "unknown"
    const calls: Array<ToolCall> = []
    // `Parts` is the stream of a toolkit of any tools.
    const parts = model.streamText({
      prompt: yield* Conversation.toPrompt(instructions, turn.messages, loadImage),
      toolkit,
      disableToolCallResolution: true,
      toolCallValidation: "deferred"
    }) as Parts
    yield* Stream.runForEachArray(parts, (some) =>
      Effect.suspend(() => {
        for (const part of some) {
          if (part.type === "text-delta") turn.growText(text += part.delta)
          if (part.type === "tool-call") calls.push(toCall(part.id, part.name, part.params))
          if (part.type === "finish") {
            turn.addUsage(part)
            reason = part.reason.replaceAll("-", "_")
          }
        }
        return text.length > maxCharacters ? new TurnFailed({ message: tooLong }) : Effect.void
      }))
    turn.text = text
    return { calls, reason }
  },
  retry
)

/** The text as it grows; the turn when it has grown, at most once in its interval, and when its text begins anew; and its last line. */
const linesOf = (turn: GrowingTurn, ending: Fiber.Fiber<TurnLine>) => {
  ending.addObserver(() => {
    turn.hasGrown.openUnsafe()
    turn.hasText.openUnsafe()
  })
  let isOver = false
  let next: number | undefined
  let nextText = -Infinity
  let sent = ""
  const read = Effect.gen(function*(): Effect.fn.Return<[TurnLine | TextLine], Cause.Done> {
    if (isOver) return yield* Cause.done()
    next ??= turn.interval + (yield* monotonicMillis)
    for (;;) {
      yield* turn.hasGrown.await
      const exit = ending.pollUnsafe()
      isOver = exit !== undefined
      if (exit !== undefined) return [yield* exit]
      const at = yield* monotonicMillis
      const hasText = turn.text !== sent && turn.text !== ""
      const due = hasText ? Math.min(next, nextText) : next
      if (at < due) {
        turn.hasText.closeUnsafe()
        yield* Effect.timeoutOption(hasText ? Fiber.await(ending) : turn.hasText.await, due - at)
        continue
      }
      nextText = at + Duration.toMillis(pieceInterval)
      const isMore = turn.text.startsWith(sent)
      sent = turn.text
      if (at < next && isMore) return [{ type: "text", text: sent }]
      turn.hasGrown.closeUnsafe()
      next = turn.interval + at
      return [{ type: "progress", turn: turn.value }]
    }
  })
  return Stream.fromPull(Effect.succeed(read))
}

/** The lines of one turn that continues `conversation`; `before` is the turn of the previous run, after tool results. */
export const run = (
  agent: Agent,
  request: CreateTurn,
  conversation: ReadonlyArray<Message>,
  before: Turn | undefined
) => {
  const clientTools = request.client_tools.filter(isPlainTool)
  const schemas = new Map(clientTools.map(({ name, parameters }) => [name, parameters ?? {}]))
  const ownTools = new Map(agent.tools.flatMap((own) => schemas.has(own.tool.name) ? [] : [[own.tool.name, own]]))
  const toolkit = Toolkit.make(...clientTools.map(toTool), ...Array.from(ownTools.values(), ({ tool }) => tool))
  const turn = new GrowingTurn(agent.modelName, conversation, before)
  const maxTotal = turn.characters + maxAddedCharacters

  const rounds: () => Effect.Effect<TurnLine, Failure> = Effect.fnUntraced(function*() {
    if (Conversation.roundsOf(turn.messages) >= agent.maxRounds) {
      return yield* new TurnFailed({ message: `The assistant did not finish within ${agent.maxRounds} rounds` })
    }
    if (Conversation.lengthOf(turn.messages) > maxMessages) {
      return yield* new TurnFailed({ message: "The conversation has too many messages" })
    }
    turn.startText()
    const { calls: sent, reason } = yield* callModel(agent, toolkit, turn)
    const calls = Conversation.withNewIds(turn.messages, sent)
    const reply = { role: "assistant", content: turn.text } as const
    turn.isStreaming = false
    if (calls.length === 0) {
      turn.messages = [...turn.messages, reply]
      turn.finish = reason
      return { type: "completed", turn: turn.value }
    }
    turn.messages = [...turn.messages, { ...reply, tool_calls: calls }]
    turn.hasGrown.openUnsafe()
    const answers = yield* Effect.forEach(calls, (call) => answerTo(call, schemas, ownTools), {
      concurrency: toolConcurrency
    })
    const pending = calls.filter((_, index) => answers[index] === undefined)
    const answered = Arr.zip(calls, answers).flatMap(([{ id }, given]) => given === undefined ? [] : [{ id, ...given }])
    const results = answered.map(({ content, id, isError }) => Conversation.answerTo(id, content, isError))
    turn.messages = [...turn.messages, ...results]
    turn.images = [...turn.images, ...answered.map(({ output }) => output).filter(Predicate.isNotUndefined)]
    turn.hasGrown.openUnsafe()
    turn.characters += JSON.stringify([turn.text, calls, answers]).length
    if (turn.characters > maxTotal) return yield* new TurnFailed({ message: tooLong })
    if (!Arr.isArrayNonEmpty(pending)) return yield* rounds()
    turn.finish = "tool_calls"
    return { type: "tool_calls", tool_calls: pending, turn: turn.value }
  })

  const last = rounds().pipe(
    Effect.tapError((error) => Effect.logWarning("a turn failed", error)),
    Effect.catch((error) => Effect.succeed<TurnLine>({ type: "failed", ...reasonOf(error), turn: turn.value }))
  )
  return Stream.unwrap(Effect.map(Effect.forkScoped(last), (ending) => linesOf(turn, ending)))
}
