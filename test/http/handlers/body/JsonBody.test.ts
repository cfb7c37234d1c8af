import { assert, describe, it } from "@effect/vitest"
import { Effect, Predicate, Result, Schema } from "effect"
import { readAppends } from "../../../../src/domain/CoreProtocol.ts"
import * as OpaqueJson from "../../../../src/domain/json/OpaqueJson.ts"
import { scan } from "../../../../src/domain/json/Scanner.ts"
import { Api } from "../../../../src/http/contract/Api.ts"
import * as Bodies from "../../../../src/http/handlers/body/Bodies.ts"
import { type BodyKind, decodeBytes } from "../../../../src/http/handlers/body/JsonBody.ts"
import { operations } from "../../../kit/operations.ts"

const encode = (text: string) => new TextEncoder().encode(text)

describe("bodies", () => {
  it("are decoded by the schemas that the contract declares", () => {
    const declared = Object.values(Api.groups).flatMap(({ endpoints }) => Object.values(endpoints)).flatMap((
      { payload }
    ) => payload.get("application/json")?.schemas ?? [])
    assert.lengthOf(declared, 8)
    const kinds = { ...Bodies, coreEvent: Bodies.coreEvent(undefined), coreEvents: Bodies.coreEvents(undefined) }
    const decoding = new Set(Object.values(kinds).map(({ schema }) => Schema.toCodecJson(schema).ast))
    for (const { ast } of declared) assert.isTrue(decoding.has(ast), String(ast.annotations?.["identifier"]))
  })
})

/** The same value, in which each name is there twice: as it is, with a wrong value, and behind it in escapes. */
const respell = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(respell).join(",")}]`
  if (!Predicate.isObject(value)) return JSON.stringify(value)
  const escape = (name: string) => name.replaceAll(/./g, (it) => `\\u${it.charCodeAt(0).toString(16).padStart(4, "0")}`)
  const fields = Object.entries(value).map(([name, member]) => `"${name}":[0],"${escape(name)}":${respell(member)}`)
  return `{${fields.join(",")}}`
}

/** Opaque JSON in a decoded body as its value, because its bytes are kept. */
const plain = (decoded: unknown) =>
  JSON.parse(
    JSON.stringify(decoded),
    (_, value) => typeof value === "string" && /^[{[]/.test(value) ? JSON.parse(value) : value
  )

describe("names", () => {
  const kinds: Readonly<Record<string, BodyKind<unknown>>> = {
    createTask: Bodies.createTask,
    rerunTask: Bodies.rerunTask,
    submitToolResults: Bodies.toolResults,
    cancelTask: Bodies.cancel,
    stopTask: Bodies.cancel,
    redeliverWebhook: Bodies.redeliver,
    reportCoreEvent: Bodies.coreEvents(undefined),
    revokeTokens: Bodies.revokeTokens
  }

  it.effect.each(operations.flatMap(({ body, id }) => body === undefined ? [] : [{ body, id }]))(
    "in bodies of $id are known however they are spelled, and the last of equal ones counts",
    ({ body, id }) =>
      Effect.gen(function*() {
        const kind = kinds[id]
        assert.isDefined(kind)
        const expected = yield* decodeBytes(kind, encode(JSON.stringify(body)))
        assert.deepStrictEqual(plain(yield* decodeBytes(kind, encode(respell(body)))), plain(expected))
      })
  )
})

describe("decodeBytes", () => {
  const errorsOf = (text: string) =>
    decodeBytes(Bodies.createTask, encode(text)).pipe(Effect.flip, Effect.map(({ errors }) => errors))

  it.effect("bounds the size of its errors for bodies with long field names and many invalid texts", () =>
    Effect.gen(function*() {
      const key = "k".repeat(1_000_000)
      const texts = `${"\"\\u0000\",".repeat(1000)}""`
      const errors = yield* errorsOf(
        `{"${key}":{"${key}":[${texts}]},"metadata":{"${key}":"\\u0000"},"turns":[${texts}]}`
      )
      assert.isBelow(JSON.stringify(errors).length, 200_000)
    }))

  it.effect("allows 1,000 levels in what it passes on", () =>
    Effect.gen(function*() {
      const withLevels = (count: number) =>
        `{"assistant_id":1,"input":[{"type":"text","text":"x"}],"turns":[{"role":"user","content":[{"x":${
          "[".repeat(count - 5)
        }${"]".repeat(count - 5)}}]}]}`
      yield* decodeBytes(Bodies.createTask, encode(withLevels(1000)))
      assert.deepStrictEqual(yield* errorsOf(withLevels(1001)), {
        body: ["Must not be nested deeper than 1000 levels"]
      })
    }))

  it.effect("names the fields that it reads and that have NUL or half a surrogate pair", () =>
    Effect.gen(function*() {
      const input = `"assistant_id":1,"input":[{"type":"text","text":"\\u0000\\ud800"}]`
      yield* decodeBytes(Bodies.createTask, encode(`{${input}}`))
      const errors = yield* errorsOf(
        `{${input},"callback_secret":"\\u0000","metadata":{"a":"\\ud800"},"client_tools":[{"type":"function","name":"\\u0000"}]}`
      )
      assert.sameMembers(Object.keys(errors), ["callback_secret", "metadata.a", "client_tools.0.name"])
    }))

  it.effect("builds the request of allowed fields, whose bytes it keeps", () =>
    Effect.gen(function*() {
      const odd = String.raw`{"b":1234567890123456789,"a":-0,"a":[1.0, 1E400],"\ud800":"\/"}`
      const { metadata, request } = yield* decodeBytes(
        Bodies.createTask,
        encode(
          String
            .raw`{"assistant_id":"no","\u0061ssistant_id":7,"user_token":"mine","resume":{},"input":[{"type":"text","text":"\u00e9","x":1}],`
            + `"turns":[{"messages":[ ${odd} ],"output":[]},{"messages":[]},{"content":[${odd}],"role":"user","x":1}],`
            + `"client_tools":[{"name":"f","inputSchema":${odd},"outputSchema":${odd}}],`
            + String.raw`"metadata":{"a":"1","\u0061":"2"}}`
        )
      )
      assert.deepStrictEqual(metadata, { a: "2" })
      const [built] = String(request).split(`,"llm_model_id"`)
      assert.strictEqual(
        built,
        String
          .raw`{"assistant_id":7,"input":[{"type":"text","text":"\u00e9"}],"turns":[ ${odd} ,{"role":"user","content":[${odd}]}],`
          + `"client_tools":[{"type":"function","name":"f","parameters":${odd},"output_schema":${odd}}]`
      )
    }))

  it.effect("decodes long lists in slices, with the errors of each item", () =>
    Effect.gen(function*() {
      const items = (wrong: ReadonlyArray<number>) =>
        Array.from({ length: 2500 }, (_, n) => wrong.includes(n) ? { type: "text" } : { type: "text", text: String(n) })
      const turns = Array.from({ length: 1500 }, (_, n) => ({ role: "user", content: String(n) }))
      const body = { assistant_id: 1, input: items([]), turns, metadata: { a: "1" } }
      const { metadata, request } = yield* decodeBytes(Bodies.createTask, encode(JSON.stringify(body)))
      assert.deepStrictEqual(metadata, body.metadata)
      const built = JSON.parse(OpaqueJson.toText(request))
      assert.deepStrictEqual({ input: built.input, turns: built.turns }, { input: body.input, turns })
      const errors = yield* errorsOf(
        JSON.stringify({ ...body, assistant_id: 0, input: items([7, 1000, 2499]), turns: [...turns, { role: "x" }] })
      )
      assert.sameMembers(Object.keys(errors), [
        "assistant_id",
        "input.7.text",
        "input.1000.text",
        "input.2499.text",
        "turns.1500.content",
        "turns.1500.role"
      ])
    }))

  it.effect("ignores a long list in a field that only other events have", () =>
    Effect.gen(function*() {
      const calls = `[${"0,".repeat(1500)}0]`
      const event =
        `"task_id":"${crypto.randomUUID()}","run_id":"${crypto.randomUUID()}","event_id":"e","type":"completed"`
      const command = yield* decodeBytes(
        Bodies.coreEvent(undefined),
        encode(`{${event},"turn":{},"tool_calls":${calls}}`)
      )
      assert.strictEqual(command.event._tag, "Completed")
    }))
})

/** JSON of a field: usually the first, or one of other values that events may have, or may not. */
const oneOf = (usual: string, ...values: ReadonlyArray<string>) =>
  Schema.Literals([...Array.from({ length: 3 * values.length }, () => usual), ...values])
const id = oneOf(
  "\"019a0000-0000-7000-8000-000000000000\"",
  "\"é\"",
  "\"\\u0000\"",
  "\"\"",
  `"${"e".repeat(255)}"`,
  `"${"e".repeat(256)}"`,
  "1",
  ""
)
const append = Schema.Struct({
  index: oneOf("7", "0", "-0", "-1", "1.5", "1e2", "9007199254740990", "9007199254740991", "\"1\"", "null", ""),
  text: oneOf(
    "\"a\"",
    "\"\\ud83d\"",
    "\"\\u0000\"",
    "\"é😀\\n\"",
    `"${"x".repeat(66_000)}"`,
    `"${"\\u00e9".repeat(20_000)}"`,
    "7",
    ""
  )
})
const Event = Schema.Struct({
  task_id: id,
  run_id: id,
  event_id: id,
  type: oneOf("\"progress\"", "\"processing\"", "\"other\"", "1", ""),
  append: Schema.NullOr(append),
  appends: Schema.Union([Schema.Array(append), oneOf("", "\"no\"", "null", "{}", "[1]", "[[]]", "[null]")]),
  more: oneOf(
    "",
    "\"other\": 1",
    "\"turn\": null",
    "\"turn\": {}",
    "\"next_append\": 1",
    "\"accepted\": true",
    "\"append\": {}"
  )
})

const documentOf = ({ append, appends, more, ...fields }: typeof Event.Type) => {
  const objectOf = (object: object) =>
    `{${Object.entries(object).flatMap(([name, value]) => value === "" ? [] : [`"${name}": ${value}`]).join(", ")}}`
  const list = typeof appends === "string" ? appends : `[${appends.map(objectOf).join(",")}]`
  const event = objectOf({
    ...fields,
    append: append === null ? "" : objectOf(append),
    appends: list === "[]" ? "" : list
  })
  return encode(more === "" ? event : `${event.slice(0, -1)}${event === "{}" ? "" : ","}${more}}`)
}

describe("events that only append", () => {
  it.effect.prop("are read as their schema reads them", [Event], ([event]) =>
    Effect.gen(function*() {
      const document = documentOf(event)
      const expected = yield* Effect.result(decodeBytes(Bodies.coreEvent(undefined), document))
      const read = yield* Effect.result(decodeBytes(Bodies.coreEvents(undefined), document))
      assert.deepStrictEqual(
        plain(Result.map(read, (events) => "event" in events ? events.event : events)),
        plain(expected),
        new TextDecoder().decode(document).slice(0, 300)
      )
    }), { arbitrary: { runs: 1000 } })

  it("are most of those that cores send", () => {
    const document = encode(
      JSON.stringify({ task_id: "a", run_id: "b", event_id: "c", type: "progress", append: { index: 7, text: "é\n" } })
    )
    const { root } = scan(document, Bodies.coreEvent(undefined).shape)
    assert.deepStrictEqual(readAppends(root!, document)?.appends, [{ index: 7, text: "é\n" }])
  })
})
