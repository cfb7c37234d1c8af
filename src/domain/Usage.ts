/**
 * Consumption of models, as a core reports it in `turn.metadata`: cumulative for the task. The service counts no tokens itself. A turn is
 * read once, where its event is decoded.
 */
import { Predicate, Schema } from "effect"
import { hasAtMostCharacters, isStorable } from "./Fields.ts"
import { readValid } from "./json/Reader.ts"
import { type Found, object, small } from "./json/Shape.ts"
import { Kind } from "./json/tables.ts"
import * as Limits from "./Limits.ts"

const count = Schema.Int

/** Tokens by kind. Cached tokens are part of the input, and reasoning tokens of the output. */
export const Tokens = Schema.Struct({
  input: count,
  output: count,
  total: count,
  cached: count,
  reasoning: count
})
export interface Tokens extends Schema.Schema.Type<typeof Tokens> {}

/** The core's report of a turn. Without usual numbers there are no tokens, and the turn is unmetered. */
export const TurnUsage = Schema.Struct({ model: Schema.NullOr(Schema.String), tokens: Schema.NullOr(Tokens) })
export interface TurnUsage extends Schema.Schema.Type<typeof TurnUsage> {}

const cached = object({ cached_tokens: small })
const reasoning = object({ reasoning_tokens: small })

/** The part of a turn that is read: the names of OpenAI's Responses, and of its Chat Completions. */
export const shape = object({
  metadata: object({
    model: small,
    usage: object({
      input_tokens: small,
      output_tokens: small,
      prompt_tokens: small,
      completion_tokens: small,
      total_tokens: small,
      input_tokens_details: cached,
      prompt_tokens_details: cached,
      output_tokens_details: reasoning,
      completion_tokens_details: reasoning
    })
  })
})

/** A usual number; undefined for another value. */
const tokensIn = (found: Found | undefined, bytes: Uint8Array): number | undefined => {
  const value = found?.kind === Kind.number ? readValid(bytes, found.start) : undefined
  return Predicate.isNumber(value) && Number.isInteger(value) && value >= 0 && value <= Limits.usageTokens
    ? value
    : undefined
}

const modelIn = (found: Found | undefined, bytes: Uint8Array): string | null => {
  // Each character takes at most 6 bytes.
  if (found?.kind !== Kind.string || found.end - found.start > 6 * Limits.modelLength + 2) return null
  const name = String(readValid(bytes, found.start))
  return name !== "" && hasAtMostCharacters(name, Limits.modelLength) && isStorable(name) ? name : null
}

const tokensOf = (usage: Found | undefined, bytes: Uint8Array): Tokens | null => {
  if (usage?.kind !== Kind.object) return null
  const isPresent = (found: Found | undefined): found is Found => found !== undefined && found.kind !== Kind.null
  const first = (...names: ReadonlyArray<string>) => names.map((name) => usage.field(name)).find(isPresent)
  const input = tokensIn(first("input_tokens", "prompt_tokens"), bytes)
  const output = tokensIn(first("output_tokens", "completion_tokens"), bytes)
  if (input === undefined || output === undefined) return null
  const reported = usage.field("total_tokens")
  const total = isPresent(reported) ? tokensIn(reported, bytes) : input + output
  if (total === undefined) return null
  const inputDetails = first("input_tokens_details", "prompt_tokens_details")
  const outputDetails = first("output_tokens_details", "completion_tokens_details")
  return {
    input,
    output,
    total,
    cached: tokensIn(inputDetails?.field("cached_tokens"), bytes) ?? 0,
    reasoning: tokensIn(outputDetails?.field("reasoning_tokens"), bytes) ?? 0
  }
}

/** Reads a turn that was found by a shape that includes `shape`; null without a model and tokens. */
export const read = (turn: Found | undefined, bytes: Uint8Array): TurnUsage | null => {
  const metadata = turn?.kind === Kind.object ? turn.field("metadata") : undefined
  if (metadata?.kind !== Kind.object) return null
  const [model, tokens] = [modelIn(metadata.field("model"), bytes), tokensOf(metadata.field("usage"), bytes)]
  return model === null && tokens === null ? null : { model, tokens }
}

export const none: Tokens = { input: 0, output: 0, total: 0, cached: 0, reasoning: 0 }

const combine = (one: Tokens, other: Tokens, by: (one: number, other: number) => number): Tokens => ({
  input: by(one.input, other.input),
  output: by(one.output, other.output),
  total: by(one.total, other.total),
  cached: by(one.cached, other.cached),
  reasoning: by(one.reasoning, other.reasoning)
})

/** The tokens that were reported beyond those that were booked: never less than nothing. */
export const difference = (reported: Tokens, booked: Tokens): Tokens =>
  combine(reported, booked, (now, before) => Math.max(0, now - before))

export const sum = (one: Tokens, other: Tokens): Tokens => combine(one, other, (a, b) => a + b)
