/**
 * One turn of a model: rounds of calling it and answering its tools, until it has no more calls of our own. Calls of the
 * client's tools end the turn; a call with wrong arguments is answered to the model and reaches nobody else.
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

/** What a call is answered: to the model, and to the client beside the model's words. */
export interface ToolAnswer {
  readonly content: string | ReadonlyArray<JsonObject>
  readonly isError?: true
  readonly output?: JsonObject
}

/** Any failure of which the model is told the message. */
type Told = { readonly message: string }

/** A tool could not do as it was asked. */
export class ToolFailed extends Schema.TaggedError<ToolFailed>()("ToolFailed", { message: Schema.String }) {}

/** A tool that is run here and not by the client. */
export interface OwnTool {
  readonly tool: Tool.Any
  readonly run: (parameters: JsonObject) => Effect.Effect<ToolAnswer, Told>
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

/** The turn was given up; the message is safe to show. */
class TurnFailed extends Schema.TaggedError<TurnFailed>()("TurnFailed", { message: Schema.String }) {}

/** Characters of one answer of the model. */
const maxCharacters = 1_000_000

/** Characters that a turn may add to its conversation: what the model says, its tool calls and their answers. */
const maxAddedCharacters = 8_000_000

/** Messages and tool calls of a conversation; each costs time in every round. */
const maxMessages = 10_000

/** Characters of a turn that one second of progress may repeat: a larger turn is reported less often. */
const progressCharacters = 1024 * 1024

/** Own tools of one round that run at once. */
const toolConcurrency = 4

type Failure = AiError.AiError | TurnFailed | Schema.SchemaError
type Reason = Pick<Extract<TurnLine, { type: "failed" }>, "code" | "message">

const reasons: { readonly [Tag in AiError.AiErrorReason["_tag"]]?: Reason } = {
  QuotaExhaustedError: { code: "payment_required" },
  RateLimitError: { message: "The model is too busy" },
  InvalidRequestError: { message: "The model does not accept this conversation" }
}

/** What a client may read of a failure; a provider's own words stay in the log. */
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

/** Holds arguments that are no JSON object, so that the model sees what it sent. */
const unreadable = "unreadable_arguments"

const toCall = (id: string, name: string, params: unknown): ToolCall => ({
  id,
  name,
  arguments: Predicate.isObject(params) ? params as JsonObject : { [unreadable]: String(params) }
})

/** The toolkit only tells the model what there is: no handler of it is run, so none is required. */
type Parts = Stream.Stream<Response.StreamPart<Record<string, Tool.Any>, "deferred">, Failure>

/** The lines of one turn, from where the conversation stands; `before` is the turn of an earlier leg. */
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
  let said = ""
  let isSaying = false
  let finish = "in_progress"
  const startSize = JSON.stringify(conversation).length
  let added = 0

  const turn = (): Turn => ({
    output: [...(said === "" ? [] : [{ type: "text", text: said }]), ...images],
    messages: isSaying && said !== "" ? [...messages, { role: "assistant", content: said }] : messages,
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

  /** Calls the model once. What it said before it failed is taken back, and said again by the next try. */
  const callModel = Effect.fnUntraced(
    function*() {
      said = ""
      isSaying = true
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
            if (part.type === "text-delta") said += part.delta
            if (part.type === "tool-call") calls.push(toCall(part.id, part.name, part.params))
            if (part.type === "finish") reason = add(part)
          }
          return said.length > maxCharacters ? new TurnFailed({ message: tooLong }) : Effect.void
        }))
      return { calls, reason }
    },
    retry
  )

  /** What a call is answered at once; undefined when the client has to. */
  const answer = Effect.fnUntraced(
    function*(call: ToolCall) {
      if (unreadable in call.arguments) {
        return yield* new ToolFailed({ message: "The arguments are not a JSON object." })
      }
      const schema = schemas.get(call.name)
      if (schema !== undefined) {
        // Checks of many calls are one turn of the event loop each.
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
    const reply = { role: "assistant", content: said } as const
    isSaying = false
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
    added += JSON.stringify([said, calls, answers]).length
    if (added > maxAddedCharacters) return yield* new TurnFailed({ message: tooLong })
    if (!Arr.isArrayNonEmpty(pending)) return yield* rounds()
    finish = "tool_calls"
    return { type: "tool_calls", tool_calls: pending, turn: turn() }
  })

  /** The turn so far, whenever it has grown: once a second at most, and at most `progressCharacters` a second. */
  const progress = Stream.fromSchedule(Schedule.spaced("1 second")).pipe(
    Stream.filter((second) => second % Math.ceil((1 + startSize + added + said.length) / progressCharacters) === 0),
    Stream.map(() => `${messages.length} ${said.length}`),
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
