/**
 * Assistants that need no model: deterministic, offline, and honest about it in `metadata.model`. Each is told apart by
 * its `assistant_id`; the README lists them.
 */
import { Effect, Predicate, type Schema, Stream } from "effect"
import type { CreateTurn, TurnLine } from "../../domain/AssistantProtocol.ts"
import type { JsonObject } from "../../domain/OpaqueJson.ts"
import * as Arithmetic from "./Arithmetic.ts"

export const ids = {
  rules: 1,
  tools: 2,
  slow: 3,
  insufficientBalance: 402,
  notFound: 404,
  crash: 500,
  neverAccepts: 504
} as const

export const known: ReadonlyArray<number> = [ids.rules, ids.tools, ids.slow, ids.crash]

type Lines = Stream.Stream<TurnLine>

/** What a file is, to an assistant that can only look at its bytes. */
export type DescribeFile = (file: JsonObject) => Effect.Effect<string>

const text = (value: Schema.Json | undefined): string => Predicate.isString(value) ? value : ""

const textsOf = (input: ReadonlyArray<Schema.Json>): string =>
  input.flatMap((item) =>
    Predicate.isObject(item) && item["type"] === "text" ? [text(item["text"] as Schema.Json)] : []
  )
    .join("\n").trim()

/** Words, as a stand-in for a model's tokens. */
const wordsIn = (value: string): number => value.split(/\s+/).filter((word) => word !== "").length

const turnOf = (model: string, request: CreateTurn, answer: string, finish: string): JsonObject => {
  const asked = textsOf(request.input)
  const question = { role: "user", content: request.input }
  const results = (request.tool_results ?? []).map(({ is_error, output, tool_call_id }) => ({
    role: "tool",
    tool_call_id,
    content: JSON.stringify(output),
    ...(is_error === true ? { is_error } : {})
  }))
  const [input_tokens, output_tokens] = [wordsIn(asked), wordsIn(answer)]
  return {
    output: answer === "" ? [] : [{ type: "text", text: answer }],
    messages: [...request.turns, question, ...results, { role: "assistant", content: answer }],
    metadata: {
      model,
      finish_reason: finish,
      usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
    }
  }
}

const help = [
  "I am a demo assistant: rules, no model. Try",
  "  2 * (3 + 4)                arithmetic",
  "  echo some words            the words again",
  "  summarize: <text>          its first and its most telling sentence",
  "or send a file, and I tell its facts."
].join("\n")

/** The first sentence, and of the others the one that shares most long words with the whole. */
const summarize = (body: string): string => {
  const [first = "", ...others] = body.split(/(?<=[.!?])\s+/).map((sentence) => sentence.trim()).filter((s) => s !== "")
  const longWords = (value: string) => value.toLowerCase().match(/\p{L}{5,}/gu) ?? []
  const counts = new Map<string, number>()
  for (const word of longWords(body)) counts.set(word, (counts.get(word) ?? 0) + 1)
  const weight = (sentence: string) => longWords(sentence).reduce((sum, word) => sum + (counts.get(word) ?? 0), 0)
  const best = others.toSorted((a, b) => weight(b) - weight(a))[0]
  return best === undefined ? first : `${first} ${best}`
}

const answerText = (asked: string): string => {
  const command = /^(echo|summari[sz]e)\b:?\s*([\s\S]*)$/i.exec(asked)
  if (command !== null) return command[1]?.toLowerCase() === "echo" ? text(command[2]) : summarize(text(command[2]))
  const result = Arithmetic.evaluate(
    asked.replace(/^\s*(what is|how much is|calculate)\b/i, "").replace(/[?=\s]+$/, "")
  )
  return result === undefined ? help : String(result)
}

const rules = (describeFile: DescribeFile) => (request: CreateTurn): Lines =>
  Stream.fromEffect(Effect.gen(function*() {
    const asked = textsOf(request.input)
    const facts = yield* Effect.forEach(request.input, (item) =>
      Predicate.isObject(item) && (item["type"] === "file" || item["type"] === "voice")
        ? describeFile(item[item["type"]] as JsonObject)
        : Effect.void)
    const answers = [
      ...facts.filter((fact) =>
        fact !== undefined
      ),
      ...(asked === "" && facts.some((fact) => fact !== undefined) ? [] : [answerText(asked)])
    ]
    return { type: "completed", turn: turnOf("demo-rules", request, answers.join("\n\n"), "stop") } as const
  }))

/** Arguments that satisfy a tool's required text parameters with the user's own words. */
const argumentsFor = (parameters: Schema.Json | undefined, asked: string): JsonObject => {
  if (!Predicate.isObject(parameters)) return {}
  const properties = parameters["properties"]
  if (!Predicate.isObject(properties)) return {}
  return Object.fromEntries(
    Object.entries(properties).flatMap(([name, property]): ReadonlyArray<[string, Schema.Json]> => {
      const type = Predicate.isObject(property) ? property["type"] : undefined
      return type === "string" ? [[name, asked]] : type === "number" || type === "integer" ? [[name, 1]] : []
    })
  )
}

/** Calls each client tool that the text names, or the first one; then tells what they answered. */
const tools = (request: CreateTurn): Lines => {
  const asked = textsOf(request.input)
  if (request.tool_results !== undefined) {
    const answers = request.tool_results.map(({ is_error, output, tool_call_id }) =>
      `${tool_call_id} ${is_error === true ? "failed with" : "answered"} ${JSON.stringify(output)}`
    )
    return Stream.make({ type: "completed", turn: turnOf("demo-tools", request, answers.join("\n"), "stop") })
  }
  const offered = request.client_tools.flatMap((tool) => Predicate.isObject(tool) ? [tool as JsonObject] : [])
  const named = offered.filter(({ name }) => asked.includes(text(name)))
  const [first, ...others] = (named.length > 0 ? named : offered.slice(0, 1)).map(({ name, parameters }) => ({
    id: `call_${text(name)}`,
    name: text(name),
    arguments: argumentsFor(parameters, asked)
  }))
  if (first === undefined) {
    const answer = "No client_tools came with this task, so there is none to call."
    return Stream.make({ type: "completed", turn: turnOf("demo-tools", request, answer, "stop") })
  }
  return Stream.make({
    type: "tool_calls",
    tool_calls: [first, ...others],
    turn: turnOf("demo-tools", request, "", "tool_calls")
  })
}

/** Counts the seconds that the text asks for (`take 30 seconds`, else 10), one progress note each. */
const slow = (request: CreateTurn): Lines => {
  const seconds = Math.min(86_400, Number(/\d+/.exec(textsOf(request.input))?.[0] ?? 10))
  const line = (done: number) => `${done} of ${seconds} seconds`
  return Stream.range(1, Math.max(1, seconds)).pipe(
    Stream.mapEffect((done) => Effect.as(Effect.sleep("1 second"), done)),
    Stream.map((done): TurnLine => ({
      type: done < seconds ? "progress" : "completed",
      turn: turnOf("demo-slow", request, line(done), done < seconds ? "in_progress" : "stop")
    }))
  )
}

/** Breaks off in the middle of its stream. */
const crash = (request: CreateTurn): Lines =>
  Stream.make({ type: "progress", turn: turnOf("demo-crash", request, "So far so", "in_progress") })

export const answer = (assistantId: number, request: CreateTurn, describeFile: DescribeFile): Lines => {
  switch (assistantId) {
    case ids.tools:
      return tools(request)
    case ids.slow:
      return slow(request)
    case ids.crash:
      return crash(request)
    default:
      return rules(describeFile)(request)
  }
}
