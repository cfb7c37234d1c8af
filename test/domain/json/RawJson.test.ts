import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import { absentOr } from "../../../src/domain/Fields.ts"
import * as OpaqueJson from "../../../src/domain/json/OpaqueJson.ts"
import * as RawJson from "../../../src/domain/json/RawJson.ts"
import { Scanner } from "../../../src/domain/json/Scanner.ts"
import * as JsonShape from "../../../src/domain/json/Shape.ts"
import { type Writable, write } from "../../../src/domain/json/Writer.ts"
import { Metadata } from "../../../src/domain/Metadata.ts"
import { CreateTaskBody } from "../../../src/domain/TaskRequest.ts"

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Decodes a body in small chunks. */
const decode = <A>(schema: Schema.Decoder<A>, text: string) => {
  const bytes = encoder.encode(text)
  const scanner = new Scanner(JsonShape.shapeOf(schema))
  for (let from = 0; from < bytes.length; from += 11) scanner.advance(bytes, Math.min(bytes.length, from + 11))
  assert.isUndefined(scanner.end())
  const { excess, value } = RawJson.decodable(scanner.root!, bytes)
  return { excess, decoded: Schema.decodeUnknownResult(schema, { errors: "all" })(value) }
}

const accepted = <A>(schema: Schema.Decoder<A>, text: string): A => {
  const { decoded, excess } = decode(schema, text)
  assert.deepStrictEqual(excess, [])
  return Result.getOrThrow(decoded)
}

const refused = <A>(schema: Schema.Decoder<A>, text: string): string =>
  Result.match(decode(schema, text).decoded, { onSuccess: () => "", onFailure: (error) => error.message })

const written = (value: Writable): string => decoder.decode(OpaqueJson.concat(OpaqueJson.toBytes(write(value))))

// The bodies of the interface, with the leaves that the gateway passes on.

const raw = <A>(schema: Schema.Codec<A>) => Schema.optional(Schema.NullOr(schema))

const CreateTask = Schema.Struct({
  assistant_id: Schema.Int,
  input: Schema.Array(Schema.Union([
    Schema.Struct({ type: Schema.Literal("text"), text: RawJson.Text }),
    Schema.Struct({
      type: Schema.Literal("file"),
      file: Schema.Struct({
        id: RawJson.Text,
        name: RawJson.Text,
        mime_type: RawJson.Text,
        provider_data: Schema.optional(Schema.Struct({ path: RawJson.Text }))
      })
    })
  ])),
  turns: absentOr(
    Schema.Array(Schema.Struct({
      role: Schema.optional(Schema.Literals(["user", "assistant", "system"])),
      content: Schema.optional(Schema.Union([RawJson.Text, RawJson.Objects])),
      messages: Schema.optional(RawJson.Objects)
    })),
    ""
  ),
  client_tools: absentOr(
    Schema.Array(Schema.Struct({
      type: Schema.optional(Schema.String),
      name: Schema.optional(Schema.String),
      parameters: raw(RawJson.AnyObject),
      input_schema: raw(RawJson.AnyObject),
      function: Schema.optional(Schema.Struct({ name: Schema.String, parameters: raw(RawJson.AnyObject) }))
    })),
    ""
  ),
  callback_secret: absentOr(Schema.String, ""),
  metadata: absentOr(Metadata, "")
})

const Results = Schema.Struct({
  results: Schema.Array(Schema.Struct({
    tool_call_id: Schema.NonEmptyString,
    output: RawJson.Any,
    is_error: absentOr(Schema.Boolean, "")
  }))
})

const Event = Schema.Union([
  Schema.Struct({ task_id: Schema.String, type: Schema.Literal("completed"), turn: RawJson.AnyObject }),
  Schema.Struct({
    task_id: Schema.String,
    type: Schema.Literal("interrupted"),
    tool_calls: Schema.NonEmptyArray(
      Schema.Struct({ id: Schema.String, name: Schema.String, arguments: RawJson.AnyObject })
    ),
    state: Schema.optional(RawJson.Any),
    turn: raw(RawJson.AnyObject)
  })
])

const Response = Schema.Struct({
  model: Schema.String,
  input: Schema.Union([
    RawJson.Text,
    Schema.Array(Schema.Struct({ type: Schema.optional(Schema.String), output: Schema.optional(RawJson.Any) }))
  ])
})

/** Numbers, keys and escapes that do not survive `JSON.parse` and `JSON.stringify`. */
const odd = String.raw`{"id": 1234567890123456789,"a":-0,"a":1.0, "b":[1E400,"\ud800\u0000\/"],"__proto__":{}}`

describe("raw JSON", () => {
  it("goes through a create request byte for byte", () => {
    const body = accepted(
      CreateTask,
      `{"assistant_id": 7, "input":[{"type":"text","text": "\\u00e9\\ud800"},{"type":"file","file":{"id":"1","name":"a","mime_type":"b","x":1}}],
        "turns":[{"role":"user","content":[${odd}]},{"messages": [ ${odd},${odd} ],"output":[]},{"role":"system","content":"a"}],
        "client_tools":[{"type":"function","name":"f","parameters":${odd}},{"function":{"name":"g","parameters":${odd}}}],
        "user_token":"mine","callback_\\u0073ecret":"last","metadata":{"a":"1","\\u0061":"2","__proto__":"3"}}`
    )
    assert.strictEqual(
      written({ ...body, metadata: { ...body.metadata } }),
      `{"assistant_id":7,"input":[{"type":"text","text":"\\u00e9\\ud800"},{"type":"file","file":{"id":"1","name":"a","mime_type":"b"}}],`
        + `"turns":[{"role":"user","content":[${odd}]},{"messages":[ ${odd},${odd} ]},{"role":"system","content":"a"}],`
        + `"client_tools":[{"type":"function","name":"f","parameters":${odd}},{"function":{"name":"g","parameters":${odd}}}],`
        + `"callback_secret":"last","metadata":{"a":"2","__proto__":"3"}}`
    )
    const messages = body.turns?.[1]?.messages as RawJson.RawJson | undefined
    assert.strictEqual(decoder.decode(messages?.items).trim(), `${odd},${odd}`)
    assert.strictEqual(messages?.count, 2)
  })

  it("goes through results, events and the façade's input byte for byte", () => {
    const results = accepted(
      Results,
      `{"results":[{"tool_call_id":"a","output":${odd}},{"output":null,"tool_call_id":"b"}]}`
    )
    assert.strictEqual(
      written(results.results),
      `[{"tool_call_id":"a","output":${odd}},{"tool_call_id":"b","output":null}]`
    )
    const event = accepted(
      Event,
      `{"turn":${odd},"state":[ 1.0 ],"tool_calls":[{"arguments":${odd},"id":"1","name":"f"}],"type":"interrupted","task_id":"t"}`
    )
    assert.strictEqual(
      written(event),
      `{"task_id":"t","type":"interrupted","tool_calls":[{"id":"1","name":"f","arguments":${odd}}],"state":[ 1.0 ],"turn":${odd}}`
    )
    assert.strictEqual(written(accepted(Event, `{"type":"completed","task_id":"t","turn":${odd}}`).task_id), "\"t\"")
    assert.strictEqual(
      written(accepted(Response, `{"model":"m","input":"\\u0041"}`)),
      `{"model":"m","input":"\\u0041"}`
    )
    assert.strictEqual(
      written(accepted(Response, `{"model":"m","input":[{"type":"a","output":${odd}}]}`)),
      `{"model":"m","input":[{"type":"a","output":${odd}}]}`
    )
  })

  it("is null where it is null", () => {
    const event = accepted(
      Event,
      `{"type":"interrupted","task_id":"t","turn":null,"state":null,"tool_calls":[{"id":"1","name":"f","arguments":{}}]}`
    )
    assert.deepInclude(event, { turn: null, state: null })
    assert.deepInclude(accepted(CreateTask, `{"assistant_id":1,"input":[],"turns":null,"metadata":null}`), {
      turns: null
    })
    assert.include(refused(Event, `{"type":"completed","task_id":"t","turn":null}`), `["turn"]`)
  })

  it("is refused by its kind", () => {
    assert.include(refused(Event, `{"type":"completed","task_id":"t","turn":[]}`), `["turn"]`)
    assert.include(refused(Results, `{"results":[{"tool_call_id":"a"}]}`), `["results"][0]["output"]`)
    const turns =
      `{"assistant_id":1,"input":[],"turns":[{"content":[{},1]},{"content":7},{"messages":{}}],"metadata":{"a":[1]}}`
    const message = refused(CreateTask, turns)
    for (
      const path of [
        `["turns"][0]["content"]`,
        `["turns"][1]["content"]`,
        `["turns"][2]["messages"]`,
        `["metadata"]["a"]`
      ]
    ) {
      assert.include(message, path)
    }
    assert.include(refused(CreateTask, `{"assistant_id":{"a":1},"input":{}}`), `["assistant_id"]`)
    assert.notStrictEqual(refused(Results, `[]`), "")
    assert.notStrictEqual(refused(Results, `null`), "")
  })

  it("has bounds for lists and texts", () => {
    const list = (count: number) => `{"results":[${Array.from({ length: count }, () => "{}").join()}]}`
    assert.deepStrictEqual(decode(Results, list(10_001)).excess, [{
      path: ["results"],
      maximum: 10_000,
      unit: "items"
    }])
    assert.deepStrictEqual(decode(Results, list(10_000)).excess, [])
    const text = decode(Results, `{"results":[{"tool_call_id":"${"a".repeat(1024 * 1024)}"}]}`)
    assert.deepStrictEqual(text.excess, [{ path: ["results", 0, "tool_call_id"], maximum: 1024 * 1024, unit: "bytes" }])
    const metadata = `{"metadata":{${Array.from({ length: 1001 }, () => "\"a\":\"\"").join()}}}`
    assert.deepStrictEqual(decode(CreateTask, metadata).excess, [{
      path: ["metadata"],
      maximum: 1000,
      unit: "pairs"
    }])
  })

  it("has a shape for the bodies as they are declared today", () => {
    const shape = JsonShape.shapeOf(CreateTaskBody)
    assert.includeMembers([...shape.names], Object.keys(CreateTaskBody.fields))
    const input = shape.fields[shape.names.indexOf("input")]
    assert.includeMembers([...input?.item?.names ?? []], ["type", "text", "file", "voice"])
    const turns = shape.fields[shape.names.indexOf("turns")]
    assert.includeMembers([...turns?.item?.names ?? []], ["role", "content", "messages"])
  })
})

describe("the writer", () => {
  it("writes what JSON.stringify writes, and splices leaves", () => {
    const leaf = new RawJson.RawJson(4, encoder.encode("\"é\""))
    for (
      const value of [{}, [], { a: undefined }, { a: 1, b: undefined, c: [null, true, "\n"] }, "a", null, [[], {}]]
    ) {
      assert.strictEqual(written(value), JSON.stringify(value))
    }
    assert.strictEqual(written({ "\"": leaf, b: [leaf, { c: leaf }, 1] }), `{"\\"":"é","b":["é",{"c":"é"},1]}`)
    const [, spliced] = write({ a: leaf })
    assert.isTrue(spliced instanceof Uint8Array && spliced.buffer === leaf.bytes.buffer)
    assert.strictEqual(written(leaf), "\"é\"")
  })

  it("writes short leaves into the text around them", () => {
    const one = new RawJson.RawJson(8, encoder.encode("[1.0,\"\\u00e9\"]"), 1, 4)
    assert.deepStrictEqual(write([one, { a: one }, 1]), ["[1.0,{\"a\":1.0},1]"])
    const long = new RawJson.RawJson(4, encoder.encode(`"${"a".repeat(40)}"`))
    assert.deepStrictEqual(write([long]).map((piece) => typeof piece), ["string", "object", "string"])
  })
})
