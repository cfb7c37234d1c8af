/** The end of a run: its turn, an interrupt, or a failure, as events of the core's protocol. */
import { outputText, type Turn } from "../../../domain/Turn.ts"
import { randomId } from "../promise/Transport.ts"

/** A call of a client tool, for the client to answer. */
export interface InterruptCall {
  /** Generated when absent. Unique within the task. */
  readonly id?: string | undefined
  readonly name: string
  readonly arguments?: object | undefined
}

/** The consumption of a run. The names of OpenAI and of the AI SDK are understood too. Repeated reports add up. */
export interface UsageReport {
  readonly model?: string | undefined
  readonly input_tokens?: number | undefined
  readonly output_tokens?: number | undefined
  /** The sum of input and output by default. */
  readonly total_tokens?: number | undefined
  /** Part of the input. */
  readonly cached_input_tokens?: number | undefined
  /** Part of the output. */
  readonly reasoning_tokens?: number | undefined
  readonly [other: string]: unknown
}

/** Errors are known by their names, so that two copies of the package understand each other. */
const named = (name: string) =>
  class extends Error {
    override readonly name: string = name
  }

/** The task fails with `Assistant is not available`. */
export class AssistantNotAvailable extends named("AssistantNotAvailable") {}

/** The task fails with `Insufficient balance`. */
export class InsufficientBalance extends named("InsufficientBalance") {}

/** The task fails with this message, which its user sees. */
export class Failure extends named("Failure") {}

/** Why a run has to end: the reason of `run.signal`. */
export class RunStopped extends named("RunStopped") {
  /** As the service gave it, or `deadline`, `superseded` or `shutdown`. */
  readonly reason: string
  constructor(reason: string) {
    super(`The run was stopped: ${reason}`)
    this.reason = reason
  }
}

/** The result of `run.interrupt`, for the function to return. */
export class Interrupt {
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: object }>
  readonly state: unknown
  readonly turn: Turn | undefined
  constructor(calls: ReadonlyArray<InterruptCall>, state: unknown, turn: Turn | undefined) {
    if (!Array.isArray(calls) || calls.length === 0) throw new TypeError("An interrupt needs at least one call")
    this.calls = calls.map(({ arguments: given, id, name }) => {
      if (typeof name !== "string" || name === "") {
        throw new TypeError("Each call of an interrupt needs the name of a tool")
      }
      return { id: id ?? `call_${randomId()}`, name, arguments: given ?? {} }
    })
    this.state = state
    this.turn = turn
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

const isItem = (value: unknown) => isObject(value) && typeof value["type"] === "string"

/** True if a result has the form of a turn: an output of typed items. */
const isTurn = (value: unknown): value is Turn =>
  isObject(value) && Array.isArray(value["output"]) && value["output"].every(isItem)

/** Tokens of a run. */
type Counts = Record<"input" | "output" | "total" | "cached" | "reasoning", number>

const noCounts: Counts = { input: 0, output: 0, total: 0, cached: 0, reasoning: 0 }

/** The first whole number at one of the paths. */
const countAt = (report: UsageReport, ...paths: ReadonlyArray<string>): number | undefined => {
  for (const path of paths) {
    let value: unknown = report
    for (const key of path.split(".")) value = isObject(value) ? value[key] : undefined
    if (typeof value === "number" && Number.isInteger(value) && value >= 0) return value
  }
  return undefined
}

/** Adds up what a task consumed. An interrupted run leaves the sum in its state, because a turn reports all runs of its task. */
export class UsageMeter {
  #counts: Counts | undefined
  #model: string | undefined

  constructor(before?: { readonly counts: Counts; readonly model?: string | undefined }) {
    this.#counts = before?.counts
    this.#model = before?.model
  }

  readonly add = (report: UsageReport) => {
    if (typeof report.model === "string") this.#model = report.model
    const input = countAt(report, "input_tokens", "inputTokens", "prompt_tokens", "promptTokens")
    const output = countAt(report, "output_tokens", "outputTokens", "completion_tokens", "completionTokens")
    if (input === undefined && output === undefined) return
    const more: Counts = {
      input: input ?? 0,
      output: output ?? 0,
      total: countAt(report, "total_tokens", "totalTokens") ?? (input ?? 0) + (output ?? 0),
      cached: countAt(
        report,
        "cached_input_tokens",
        "cachedInputTokens",
        "input_tokens_details.cached_tokens",
        "prompt_tokens_details.cached_tokens",
        "inputTokenDetails.cacheReadTokens"
      ) ?? 0,
      reasoning: countAt(
        report,
        "reasoning_tokens",
        "reasoningTokens",
        "output_tokens_details.reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "outputTokenDetails.reasoningTokens"
      ) ?? 0
    }
    const before = this.#counts ?? noCounts
    this.#counts = {
      input: before.input + more.input,
      output: before.output + more.output,
      total: before.total + more.total,
      cached: before.cached + more.cached,
      reasoning: before.reasoning + more.reasoning
    }
  }

  /** For the state of an interrupt; undefined when nothing was reported. */
  get kept() {
    return this.#counts === undefined && this.#model === undefined
      ? undefined
      : { counts: this.#counts ?? noCounts, ...(this.#model === undefined ? {} : { model: this.#model }) }
  }

  /** The part of a turn's `metadata`. What the turn says itself wins. */
  get metadata() {
    const counts = this.#counts
    return {
      ...(this.#model === undefined ? {} : { model: this.#model }),
      ...(counts === undefined ? {} : {
        usage: {
          input_tokens: counts.input,
          output_tokens: counts.output,
          total_tokens: counts.total,
          ...(counts.cached === 0 ? {} : { input_tokens_details: { cached_tokens: counts.cached } }),
          ...(counts.reasoning === 0 ? {} : { output_tokens_details: { reasoning_tokens: counts.reasoning } })
        }
      })
    }
  }
}

const usageKey = "async-task-service-client/core"

/** The state of an interrupt as it is sent: the author's own, with the usage so far if there is any. */
export const toWireState = (state: unknown, usage: UsageMeter): unknown =>
  usage.kept === undefined ? state ?? null : { [usageKey]: usage.kept, state: state ?? null }

export const fromWireState = (wire: unknown): { readonly state: unknown; readonly usage: UsageMeter } => {
  if (!isObject(wire) || !isObject(wire[usageKey])) return { state: wire ?? null, usage: new UsageMeter() }
  // Only `toWireState` writes this key.
  const { counts, model } = wire[usageKey] as { counts: Counts; model?: string }
  return { state: wire["state"] ?? null, usage: new UsageMeter({ counts: { ...noCounts, ...counts }, model }) }
}

/** A result as a turn: itself, or that of a text. Only a turn of the author has messages and metadata yet. */
export const toTurn = (result: unknown): Turn => {
  if (isTurn(result)) return result
  const text = typeof result === "string" ? result : JSON.stringify(result) ?? ""
  return { output: text === "" ? [] : [{ type: "text", text }] }
}

/**
 * A turn as it is stored, with what was used. A later task continues the conversation with its messages, so those that the author did
 * not give are `messages`, the conversation before it, and its text.
 */
export const toWholeTurn = (turn: Turn, messages: ReadonlyArray<object>, usage: UsageMeter) =>
  ({
    ...turn,
    messages: turn.messages ?? [...messages, { role: "assistant", content: outputText({ turn }) }],
    metadata: { ...usage.metadata, ...turn.metadata }
    // The fields that a turn of an author may lack are there now.
  }) as Turn

/** Bytes of a JSON text that the service reads. */
const maxWordsBytes = 1024 * 1024

/** Words that the service can store: what it cannot is U+FFFD, and what is too long is cut. */
const storable = (given: string): string => {
  const sizeOf = (text: string) => new TextEncoder().encode(JSON.stringify(text)).length
  let words = given.replaceAll("\0", "\uFFFD").replaceAll(/\p{Surrogate}/gu, "\uFFFD")
  for (let size = sizeOf(words); size > maxWordsBytes; size = sizeOf(words)) {
    words = words.slice(0, Math.floor(words.length * maxWordsBytes / size)).replace(/\p{Surrogate}$/u, "")
  }
  return words
}

/** The fields of the event that ends a run which threw `error`. Only the messages of a `Failure` are for the user. */
export const failureOf = (error: unknown) => {
  const name = error instanceof Error ? error.name : ""
  if (name === "AssistantNotAvailable") return { type: "failed", code: "assistant_not_found" }
  if (name === "InsufficientBalance") return { type: "failed", code: "payment_required" }
  return name === "Failure" && error instanceof Error
    ? { type: "failed", code: "internal", message: storable(error.message) }
    : { type: "failed", code: "internal" }
}
