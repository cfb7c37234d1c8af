/**
 * Assistants that need no model: deterministic, offline, and honest about it in `metadata.model`. Each is told apart by
 * its `assistant_id`; the README lists them.
 */
import { Effect, Predicate, type Schema, Stream } from "effect"
import { createHash } from "node:crypto"
import type { CreateTurn, TurnLine } from "../../domain/AssistantProtocol.ts"
import type { JsonObject } from "../../domain/OpaqueJson.ts"
import { keepImage } from "./AgentTools.ts"
import * as Arithmetic from "./Arithmetic.ts"
import * as FileReader from "./FileReader.ts"
import type { FileStorage } from "./FileStorage.ts"
import * as PngImage from "./PngImage.ts"

export const ids = {
  rules: 1,
  tools: 2,
  slow: 3,
  painter: 4,
  insufficientBalance: 402,
  notFound: 404,
  crash: 500,
  neverAccepts: 504
} as const

export const known: ReadonlyArray<number> = [ids.rules, ids.tools, ids.slow, ids.painter, ids.crash]

type Lines = Stream.Stream<TurnLine>

/** Characters of a file that are looked at. */
const charactersRead = 1_000_000

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
  "or send a file, and I tell its facts, or the passage that answers your question best."
].join("\n")

const sentencesOf = (body: string) =>
  body.split(/(?<=[.!?])\s+|\n+/).map((sentence) => sentence.trim()).filter((sentence) => sentence !== "")

const longWords = (value: string) => value.toLowerCase().match(/\p{L}{4,}/gu) ?? []

/** Of the sentences the one that shares most long words with a text. */
const closest = (sentences: ReadonlyArray<string>, body: string): string | undefined => {
  const counts = new Map<string, number>()
  for (const word of longWords(body)) counts.set(word, (counts.get(word) ?? 0) + 1)
  const weight = (sentence: string) => longWords(sentence).reduce((sum, word) => sum + (counts.get(word) ?? 0), 0)
  return sentences.toSorted((a, b) => weight(b) - weight(a))[0]
}

/** The first sentence, and of the others the most telling one. */
const summarize = (body: string): string => {
  const [first = "", ...others] = sentencesOf(body)
  return [first, closest(others, body)].filter((sentence) => sentence !== undefined).join(" ")
}

const answerText = (asked: string): string => {
  const command = /^(echo|summari[sz]e)\b:?\s*([\s\S]*)$/i.exec(asked)
  if (command !== null) return command[1]?.toLowerCase() === "echo" ? text(command[2]) : summarize(text(command[2]))
  const result = Arithmetic.evaluate(
    asked.replace(/^\s*(what is|how much is|calculate)\b/i, "").replace(/[?=\s]+$/, "")
  )
  return result === undefined ? help : String(result)
}

const factsOf = (content: string) => {
  const words = content.split(/\s+/).filter((word) => word !== "").length
  return `${content.split("\n").length} lines, ${words} words`
}

/** Tells a file's name, type, size, lines, words and digest; asked a question, the passage that is closest to it. */
const describe = (storage: FileStorage, reader: FileReader.FileReader) =>
  Effect.fnUntraced(
    function*(file: JsonObject, asked: string) {
      const found = yield* storage.find(file["id"])
      const read = Effect.map(reader.read(found, 0, charactersRead), (extracted) => extracted.text)
      const name = String(file["name"])
      if (asked !== "") return `${name}: ${closest(sentencesOf(yield* read), asked) ?? "is empty"}`
      const facts = yield* Effect.catch(Effect.map(read, factsOf), ({ message }) => Effect.succeed(message))
      const digest = found.size > FileReader.limits.fileBytes
        ? ""
        : `, sha256 ${createHash("sha256").update(yield* storage.read(found)).digest("hex")}`
      return `${name}: ${String(file["mime_type"])}, ${found.size} bytes, ${facts}${digest}`
    },
    (effect, file) => Effect.catch(effect, ({ message }) => Effect.succeed(`${String(file["name"])}: ${message}`))
  )

const rules = (storage: FileStorage, reader: FileReader.FileReader) => {
  const describeFile = describe(storage, reader)
  return (request: CreateTurn): Lines =>
    Stream.fromEffect(Effect.gen(function*() {
      const asked = textsOf(request.input)
      const files = request.input.flatMap((item) =>
        Predicate.isObject(item) && Predicate.isObject(item["file"]) ? [item["file"] as JsonObject] : []
      )
      const answers = files.length === 0
        ? [answerText(asked)]
        : yield* Effect.forEach(files, (file) => describeFile(file, asked))
      return { type: "completed", turn: turnOf("demo-rules", request, answers.join("\n\n"), "stop") } as const
    }))
}

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

/** Draws what it is told, by its own lights. */
const painter = (storage: FileStorage) => (request: CreateTurn): Lines =>
  Stream.fromEffect(Effect.gen(function*() {
    const asked = textsOf(request.input)
    const image = yield* Effect.orDie(keepImage(storage, "drawing", PngImage.draw(asked)))
    const turn = turnOf("demo-painter", request, `Here is my idea of "${asked}".`, "stop")
    return {
      type: "completed",
      turn: { ...turn, output: [...turn["output"] as ReadonlyArray<JsonObject>, image] }
    } as const
  }))

export const make = (storage: FileStorage, reader: FileReader.FileReader) => {
  const byId: Readonly<Record<number, (request: CreateTurn) => Lines>> = {
    [ids.tools]: tools,
    [ids.slow]: slow,
    [ids.painter]: painter(storage),
    [ids.crash]: crash
  }
  const otherwise = rules(storage, reader)
  return (assistantId: number, request: CreateTurn): Lines => (byId[assistantId] ?? otherwise)(request)
}
