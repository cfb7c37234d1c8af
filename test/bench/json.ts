/**
 * Scans 16 MiB of JSON of several shapes in chunks of 64 KiB, beside what objects cost: the reader, `toString` with `JSON.parse`, and
 * `JSON.stringify`. Then decodes lists of 10,000 small items, beside `JSON.parse`. Milliseconds, the best of all rounds; of a chunk
 * too, so that the longest one is not that in which another process ran.
 */
import { Result, Schema } from "effect"
import * as RawJson from "../../src/domain/json/RawJson.ts"
import { readValid } from "../../src/domain/json/Reader.ts"
import { Scanner } from "../../src/domain/json/Scanner.ts"
import {
  array,
  captured,
  counted,
  object,
  raw,
  record,
  type Shape,
  shapeOf,
  small
} from "../../src/domain/json/Shape.ts"
import { numbersOf } from "./bench.ts"

const { rounds } = numbersOf({ rounds: 10 })
const chunkBytes = 65_536
const size = 16 * 1024 * 1024

const times = (text: string) => text.repeat(Math.ceil(size / text.length))
const turn = object({ turn: raw })
const item = object({ type: small, text: raw, role: small, content: counted, messages: counted })
const body = object({ assistant_id: small, input: array(item), turns: array(item), metadata: record(small) })
const event = object({ task_id: captured, type: captured, turn: raw })

const documents: ReadonlyArray<readonly [name: string, text: string, shape: Shape]> = [
  ["one text", `{"turn":{"text":"${times("Hello, world. ")}"}}`, turn],
  ["one text of 3-byte characters", `{"turn":{"text":"${times("語").slice(0, size / 3)}"}}`, turn],
  [
    "400,000 small objects",
    JSON.stringify({ turn: Array.from({ length: 400_000 }, (_, n) => ({ role: "user", n, t: "abc\n" })) }),
    turn
  ],
  ["escapes", JSON.stringify({ turn: "\n\"\\".repeat(size / 6) }), turn],
  ["\\u escapes", `{"turn":"${times("\\u00e9").slice(0, size - size % 6)}"}`, turn],
  ["numbers of one digit", `{"turn":[${times("0,")}0]}`, turn],
  ["numbers of 17 digits", `{"turn":[${times("-1.2345678901234567e-7,")}0]}`, turn],
  ["literals", `{"turn":[${times("true,false,null,")}0]}`, turn],
  ["1,000 levels", `{"turn":[${times(`${"[".repeat(998)}${"]".repeat(998)},`)}0]}`, turn],
  ["white space", `{"turn":${times(" \n")}1}`, turn],
  ["items beyond the bound", `{"input":[${times("{\"type\":\"text\",\"text\":\"a\"},")}0]}`, body],
  ["items that are counted", `{"input":[{"messages":[${times("{},")}{}]}]}`, body],
  ["pairs beyond the bound", `{"metadata":{${times("\"a\":\"\",")}"b":""}}`, body],
  ["repeated names with escapes", `{${times("\"\\u0069nput\":[],")}"x":0}`, body],
  ["repeated captured texts", `{${times("\"task_id\":\"a\",")}"x":0}`, event]
]

const timed = (run: () => void): number => {
  const start = performance.now()
  run()
  return performance.now() - start
}

/** The scanner at the end, and the time of each chunk. */
const scan = (bytes: Uint8Array, shape: Shape) => {
  const scanner = new Scanner(shape)
  const chunks = Array.from(
    { length: Math.ceil(bytes.length / chunkBytes) },
    (_, index) => timed(() => void scanner.advance(bytes, Math.min(bytes.length, (index + 1) * chunkBytes)))
  )
  const problem = scanner.end()
  if (problem !== undefined) throw new Error(JSON.stringify(problem))
  return { scanner, chunks }
}

const rounded = (times: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(times).map(([name, time]) => [name, Number(time.toFixed(2))]))

/** The best of each number. */
const best = (measure: () => Readonly<Record<string, number>>) => {
  const runs = Array.from({ length: rounds }, measure)
  const least = (name: string) => Math.min(...runs.map((run) => run[name] ?? 0))
  return rounded(Object.fromEntries(Object.keys(runs[0] ?? {}).map((name) => [name, least(name)])))
}

const measure = (text: string, shape: Shape) => {
  const bytes = Buffer.from(text)
  let chunks: ReadonlyArray<number> = []
  const times = best(() => {
    let parsed: unknown
    const scanned = scan(bytes, shape)
    chunks = scanned.chunks.map((time, index) => Math.min(time, chunks[index] ?? Infinity))
    return {
      "scan": scanned.chunks.reduce((sum, chunk) => sum + chunk, 0),
      "read": timed(() => void readValid(bytes)),
      "toString + JSON.parse": timed(() => void (parsed = JSON.parse(bytes.toString()))),
      "JSON.stringify": timed(() => void JSON.stringify(parsed))
    }
  })
  return { ...rounded({ "MiB": bytes.length / 1024 / 1024, "longest chunk": Math.max(...chunks) }), ...times }
}

console.table(Object.fromEntries(documents.map(([name, text, shape]) => [name, measure(text, shape)])))

const lists = {
  input: Schema.Array(Schema.Union([
    Schema.Struct({ type: Schema.Literal("text"), text: RawJson.Text }),
    Schema.Struct({ type: Schema.Literal("file"), file: Schema.Struct({ id: RawJson.Text }) })
  ])),
  turns: Schema.Array(Schema.Struct({
    role: Schema.optional(Schema.Literals(["user", "assistant"])),
    content: Schema.optional(Schema.Union([RawJson.Text, RawJson.Objects])),
    messages: Schema.optional(RawJson.Objects)
  })),
  tool_calls: Schema.Array(Schema.Struct({ id: Schema.String, name: Schema.String, arguments: RawJson.AnyObject }))
}

const smallest = {
  input: "{\"type\":\"text\",\"text\":\"\"}",
  turns: "{\"role\":\"user\",\"content\":\"\"}",
  tool_calls: "{\"id\":\"1\",\"name\":\"f\",\"arguments\":{}}"
}

const measureDecoding = (name: keyof typeof lists) => {
  const schema = Schema.Struct({ [name]: lists[name] })
  const bytes = Buffer.from(`{"${name}":[${Array(10_000).fill(smallest[name]).join()}]}`)
  const shape = shapeOf(schema)
  const decode = Schema.decodeUnknownResult(schema as Schema.Decoder<unknown>, { errors: "all" })
  const root = scan(bytes, shape).scanner.root!
  return best(() => {
    let value: unknown
    return {
      "scan": timed(() => void scan(bytes, shape)),
      "values of the ranges": timed(() => void ({ value } = RawJson.decodable(root, bytes))),
      "schema": timed(() => void Result.getOrThrow(decode(value))),
      "JSON.parse": timed(() => void JSON.parse(bytes.toString()))
    }
  })
}

console.table({
  "10,000 input items": measureDecoding("input"),
  "10,000 turns": measureDecoding("turns"),
  "10,000 tool calls": measureDecoding("tool_calls")
})
process.exit()
