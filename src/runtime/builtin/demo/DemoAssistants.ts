/**
 * Deterministic offline assistants that need no model; `metadata.model` of their turns says so. src/runtime/builtin/README.md
 * lists their ids.
 */
import { Array as Arr, Effect, Predicate, Schema, Stream } from "effect"
import type { JsonObject } from "../../../domain/json/OpaqueJson.ts"
import { FileItem, isPlainTool, TextItem } from "../../../domain/TaskRequest.ts"
import type { ToolCall } from "../../../domain/ToolCall.ts"
import type { CreateTurn, TurnLine } from "../AssistantProtocol.ts"
import { skipToLatest } from "../Backend.ts"
import * as Conversation from "../backend/Conversation.ts"
import * as FileReader from "../backend/FileReader.ts"
import type { FileStorage } from "../backend/FileStorage.ts"
import * as Arithmetic from "./Arithmetic.ts"
import * as PngImage from "./PngImage.ts"
import * as Sample from "./Sample.ts"

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

/** Those that do some work, for lists. */
export const described = [
  { id: ids.rules, name: "Rules", description: "Arithmetic, echo, summaries, facts about files." },
  { id: ids.tools, name: "Tools", description: "Calls client tools, and reports their results." },
  { id: ids.slow, name: "Slow", description: "Counts seconds, with progress." },
  { id: ids.painter, name: "Painter", description: "Draws a picture." }
]

/** The only line of a turn, or all of them. */
export type DemoAssistant = (request: CreateTurn, user: string) => Effect.Effect<TurnLine> | Stream.Stream<TurnLine>

/** Characters of a text or a file that are searched for sentences; the rest is ignored. */
const charactersSearched = 100_000

/** Characters of a file whose lines and words are counted. */
const charactersCounted = 1_000_000

/** Answers are cut to fewer words only. */
const wordsCut = 10_000

/** Maximum characters of one argument of a tool call, and maximum arguments of one call. */
const argumentCharacters = 1000
const maxArguments = 100

/** Maximum files of one task that are described. */
const maxFiles = 20

/** Maximum characters of the conversation that progress repeats per second. */
const progressCharacters = 1024 * 1024

const isText = Schema.is(TextItem) as <I>(value: I) => value is I & typeof TextItem.Encoded
const isFile = Schema.is(FileItem) as <I>(value: I) => value is I & typeof FileItem.Encoded

const textOf = ({ input }: CreateTurn): string => input.filter(isText).map(({ text }) => text).join("\n").trim()

const newline = 10

/** True if a character separates words. */
const isBlank = (code: number) =>
  code <= 0x20 || code === 0xa0 || (code >= 0x2000 && code <= 0x200a) || code === 0x2028 || code === 0x2029
  || code === 0x3000

/** Counts lines and words (in place of a model's tokens) in one pass without building lists: a text may have megabytes. */
const measure = (text: string): { readonly lines: number; readonly words: number } => {
  let lines = 1
  let words = 0
  let isInWord = false
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === newline) lines++
    const isOfWord = !isBlank(code)
    if (isOfWord && !isInWord) words++
    isInWord = isOfWord
  }
  return { lines, words }
}

const wordsIn = (text: string): number => measure(text).words

/** `made` are the calls of the turn; they precede their results. */
const turnOf = (
  model: string,
  request: CreateTurn,
  answer: string,
  finish_reason: string,
  made: ReadonlyArray<ToolCall> = []
): Conversation.Turn => {
  // After tool results, the call before them counts too: it read the same input, and wrote no text.
  const input_tokens = wordsIn(textOf(request)) * (request.tool_results === undefined ? 1 : 2)
  const output_tokens = wordsIn(answer)
  return {
    output: answer === "" ? [] : [{ type: "text", text: answer }],
    messages: [
      ...Conversation.start(request),
      ...(made.length === 0 ? [] : [{ role: "assistant", content: null, tool_calls: made } as const]),
      ...(request.tool_results ?? []).map(Conversation.toMessage),
      ...(answer === "" ? [] : [{ role: "assistant", content: answer } as const])
    ],
    metadata: {
      model,
      finish_reason,
      usage: { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
    }
  }
}

/** The first words of a text, which count as tokens here. */
const firstWords = (text: string, count: number): string =>
  new RegExp(`^\\s*(?:\\S+\\s*){0,${Math.min(count, wordsCut)}}`).exec(text)?.[0].trimEnd() ?? ""

/** The answer in the requested form, within the requested length. */
const completed = (
  model: string,
  request: CreateTurn,
  text: string,
  made?: ReadonlyArray<ToolCall>
): TurnLine => {
  const { max_output_tokens: maximum = Infinity, response_format: format } = request.options ?? {}
  const answer = format === undefined ? text : JSON.stringify(Sample.of(format["schema"], text))
  const isCut = maximum < wordsCut && wordsIn(answer) > maximum
  return {
    type: "completed",
    turn: turnOf(model, request, isCut ? firstWords(answer, maximum) : answer, isCut ? "length" : "stop", made)
  }
}

const help = [
  "I am a demo assistant: rules, no model. Try",
  "  2 * (3 + 4)                arithmetic",
  "  echo some words            the words again",
  "  summarize: <text>          its first and its most telling sentence",
  "or send a file, and I tell its facts, or the passage that answers your question best."
].join("\n")

const sentencesOf = (text: string) =>
  text.slice(0, charactersSearched).split(/(?<=[.!?])\s+|\n+/).map((sentence) => sentence.trim()).filter((sentence) =>
    sentence !== ""
  )

const longWords = (text: string) => text.slice(0, charactersSearched).toLowerCase().match(/\p{L}{4,}/gu) ?? []

/** The sentence that shares the most long words with a text. */
const closest = (sentences: ReadonlyArray<string>, text: string): string | undefined => {
  const counts = Map.groupBy(longWords(text), (word) => word)
  const weights = sentences.map((sentence) =>
    longWords(sentence).reduce((sum, word) => sum + (counts.get(word)?.length ?? 0), 0)
  )
  return sentences[weights.indexOf(weights.reduce((most, weight) => Math.max(most, weight), 0))]
}

/** The first sentence, and the other one that shares the most long words with the whole text. */
const summarize = (text: string): string => {
  const [first = "", ...others] = sentencesOf(text)
  return [first, closest(others, text)].filter(Predicate.isNotUndefined).join(" ")
}

const answerText = (prompt: string): string => {
  const [, command, rest = ""] = /^(echo|summari[sz]e)\b:?\s*([\s\S]*)$/i.exec(prompt) ?? []
  if (command !== undefined && rest !== "") return command.toLowerCase() === "echo" ? rest : summarize(rest)
  // The lookbehind lets only the first character of a run begin a match: without it the cost is quadratic.
  const term = prompt.replace(/^(what is|how much is|calculate)\b/i, "").replace(/(?<![?=\s])[?=\s]+$/, "")
  return String(Arithmetic.evaluate(term) ?? help)
}

/** Between the pages of a PDF. They are no passages. */
const pageMarks = /^--- page \d+ ---$/gm

/** Describes a file by its type, size, lines, words and digest, or answers a question with the closest passage of the file. */
const describe = (storage: FileStorage, reader: FileReader.FileReader) =>
  Effect.fnUntraced(
    function*({ id, mime_type }: (typeof FileItem.Encoded)["file"], question: string, user: string) {
      const file = yield* storage.find(id)
      const content = Effect.map(reader.read(file, 0, charactersCounted, user), ({ text }) => text)
      if (question !== "") {
        const text = (yield* content).replaceAll(pageMarks, "")
        const answer = /^summari[sz]e\b/i.test(question) ? summarize(text) : closest(sentencesOf(text), question)
        return answer || "is empty"
      }
      const facts = yield* Effect.match(content, {
        onFailure: ({ message }) => message,
        onSuccess: (text) => {
          const { lines, words } = measure(text)
          return `${lines} lines, ${words} words`
        }
      })
      const digest = file.size > FileReader.limits.fileBytes
        ? ""
        : `, sha256 ${yield* storage.digest(file)}`
      return `${mime_type}, ${file.size} bytes, ${facts}${digest}`
    },
    Effect.catch(({ message }) => Effect.succeed(message)),
    (effect, { name }) => Effect.map(effect, (answer) => `${name}: ${answer}`)
  )

const rules = (storage: FileStorage, reader: FileReader.FileReader): DemoAssistant => {
  const describeFile = describe(storage, reader)
  return (request, user) => {
    const prompt = textOf(request)
    const files = request.input.filter(isFile).slice(0, maxFiles)
    const answers = files.length === 0
      ? Effect.succeed([answerText(prompt)])
      : Effect.forEach(files, ({ file }) => describeFile(file, prompt, user))
    return Effect.map(answers, (all) => completed("demo-rules", request, all.join("\n\n")))
  }
}

/** Arguments of a tool: the user's text for every string, and 1 for every number. */
const argumentsFor = (parameters: JsonObject | null | undefined, prompt: string): JsonObject =>
  Object.fromEntries(
    Object.entries(parameters?.["properties"] ?? {}).slice(0, maxArguments).flatMap(
      ([name, property]): Array<[string, Schema.Json]> => {
        const type = Predicate.hasProperty(property, "type") ? property.type : undefined
        return type === "string" ? [[name, prompt]] : type === "number" || type === "integer" ? [[name, 1]] : []
      }
    )
  )

/** Calls each client tool that the text names, or the first one, and then returns their results. */
const tools: DemoAssistant = (request) => {
  const prompt = textOf(request)
  const available = request.client_tools.filter(isPlainTool)
  // Providers refuse a conversation in which two calls have the same id.
  const rounds = Conversation.start(request).filter(({ tool_calls }) => (tool_calls ?? []).length > 0).length
  const suffix = rounds === 0 ? "" : `_${rounds + 1}`
  const words = new Set(prompt.slice(0, charactersSearched).match(/[A-Za-z0-9_-]+/g))
  const named = available.filter(({ name }) => words.has(name))
  const calls = (named.length > 0 ? named : available.slice(0, 1)).map(({ name, parameters }) => ({
    id: `call_${name}${suffix}`,
    name,
    arguments: argumentsFor(parameters, prompt.slice(0, argumentCharacters))
  }))
  if (request.tool_results === undefined && Arr.isArrayNonEmpty(calls)) {
    const turn = turnOf("demo-tools", request, "", "tool_calls", calls)
    return Effect.succeed({ type: "tool_calls", tool_calls: calls, turn })
  }
  const answers = request.tool_results?.map(({ is_error, output, tool_call_id }) =>
    `${tool_call_id} ${is_error === true ? "failed with" : "answered"} ${JSON.stringify(output)}`
  )
  const answer = answers?.join("\n") ?? "No client_tools came with this task, so there is none to call."
  const answered = new Set(request.tool_results?.map(({ tool_call_id }) => tool_call_id))
  const made = calls.filter(({ id }) => answered.has(id))
  return Effect.succeed(completed("demo-tools", request, answer, made))
}

/** Seconds between two progress reports: one per started MiB of the conversation, because every report repeats it. */
const progressSeconds = (request: CreateTurn) =>
  Math.ceil(JSON.stringify([request.turns, request.input]).length / progressCharacters)

/** Counts the seconds that the text names (`take 30 seconds`, default 10), with a progress report for each. */
const slow: DemoAssistant = (request) => {
  const [found] = /\d{1,9}/.exec(textOf(request)) ?? []
  const seconds = Math.max(1, Math.min(86_400, Number(found ?? 10)))
  const step = progressSeconds(request)
  return Stream.range(1, seconds).pipe(
    Stream.mapEffect((done) => Effect.as(Effect.sleep("1 second"), done)),
    Stream.filter((done) => done === seconds || done % step === 0),
    Stream.map((done): TurnLine => {
      const [type, finish] = done < seconds ? ["progress", "in_progress"] as const : ["completed", "stop"] as const
      return { type, turn: turnOf("demo-slow", request, `${done} of ${seconds} seconds`, finish) }
    }),
    skipToLatest
  )
}

/** Ends its stream in the middle of a turn. */
const crash: DemoAssistant = (request) =>
  Stream.make({ type: "progress", turn: turnOf("demo-crash", request, "So far so", "in_progress") })

/** Draws a picture that depends only on the text. */
const painter = (storage: FileStorage): DemoAssistant => (request, user) => {
  const prompt = textOf(request)
  const { output, ...turn } = turnOf("demo-painter", request, `Here is my idea of "${prompt}".`, "stop")
  return storage.store(user, "drawing.png", "image/png", Stream.make(PngImage.draw(prompt))).pipe(
    Effect.map((file): TurnLine => ({
      type: "completed",
      turn: { ...turn, output: [...output, { type: "image", file }] }
    })),
    Effect.catchTag("StorageFull", ({ message }) => Effect.succeed<TurnLine>({ type: "failed", message })),
    Effect.orDie
  )
}

export const make = (storage: FileStorage, reader: FileReader.FileReader) =>
  new Map<number, DemoAssistant>([
    [ids.rules, rules(storage, reader)],
    [ids.tools, tools],
    [ids.slow, slow],
    [ids.painter, painter(storage)],
    [ids.crash, crash]
  ])
