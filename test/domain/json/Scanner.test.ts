import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { scan, Scanner } from "../../../src/domain/json/Scanner.ts"
import * as Shape from "../../../src/domain/json/Shape.ts"
import { describe as describeProblem, Kind } from "../../../src/domain/json/tables.ts"
import { bytesOf, invalid, valid } from "../jsonCorpus.ts"
import { brokenDocuments, cut, Cuts, documents } from "../jsonDocuments.ts"

const strict = new TextDecoder("utf-8", { fatal: true })
const encoder = new TextEncoder()

/** What `JSON.parse` says. */
const isJson = (bytes: Uint8Array): boolean => {
  try {
    JSON.parse(strict.decode(bytes))
    return true
  } catch {
    return false
  }
}

/** Each chunk makes the document longer, in a buffer of its own with other bytes behind them. */
const scanned = (chunks: ReadonlyArray<Uint8Array>, shape?: Shape.Shape, maxDepth?: number) => {
  const scanner = new Scanner(shape, maxDepth)
  let document = new Uint8Array(0)
  chunks.forEach((chunk, index) => {
    const size = document.length + chunk.length
    const buffer = new Uint8Array(size + 300 + index % 4).subarray(index % 4).fill(0x22)
    buffer.set(document)
    buffer.set(chunk, document.length)
    document = buffer.subarray(0, size)
    scanner.advance(buffer, size)
  })
  scanner.end()
  return scanner
}

const problemOf = (text: string) => {
  const { problem } = scanned([encoder.encode(text)])
  return problem && describeProblem(problem)
}

const cuts = [1, 2, 3, 7, 1000]

const { array, captured, counted, object, raw, record, small } = Shape

/** The found values as JSON.parse sees their ranges. */
const valuesOf = (found: Shape.Found | undefined, bytes: Uint8Array): unknown => {
  if (found === undefined) return undefined
  const { kind, members, shape } = found
  if (kind === Kind.object && shape.pairs !== undefined) {
    return Array.from({ length: members.length / 2 }, (_, index) => members.slice(2 * index, 2 * index + 2))
      .map((pair) => pair.map((member) => valuesOf(member, bytes)))
  }
  if (kind === Kind.object && shape.entersObject) {
    return shape.names.flatMap((name) => {
      const member = found.field(name)
      return member === undefined ? [] : [[name, valuesOf(member, bytes)]]
    })
  }
  if (kind === Kind.array && shape.item !== undefined) return members.map((member) => valuesOf(member, bytes))
  return JSON.parse(strict.decode(bytes.subarray(found.start, found.end)))
}

const found = (text: string, shape: Shape.Shape) => {
  const bytes = encoder.encode(text)
  const all = cuts.map((size) => scanned(cut(bytes, [size]), shape))
  const results = all.map(({ root }) => valuesOf(root, bytes))
  for (const result of results) assert.deepStrictEqual(result, results[0])
  return results[0]
}

describe("the scanner", () => {
  it.each(cuts)("accepts and refuses the corpus in chunks of %i bytes, like JSON.parse", (size) => {
    assert.isAtLeast(new Set([...valid, ...invalid]).size, 500)
    for (const [texts, expected] of [[valid, true], [invalid, false]] as const) {
      for (const text of texts) {
        const bytes = bytesOf(text)
        assert.strictEqual(isJson(bytes), expected, JSON.stringify(text))
        assert.strictEqual(scanned(cut(bytes, [size])).problem === undefined, expected, JSON.stringify(text))
      }
    }
  })

  it.prop("accepts valid documents, however they are cut", [documents, Cuts], ([bytes, lengths]) => {
    assert.isUndefined(scanned(cut(bytes, lengths)).problem)
  }, { arbitrary: { runs: 300 } })

  it.prop("agrees with JSON.parse about broken documents", [brokenDocuments, Cuts], ([bytes, lengths]) => {
    const { problem } = scanned(cut(bytes, lengths))
    assert.strictEqual(problem === undefined, isJson(bytes))
    assert.deepStrictEqual(problem, scanned([bytes]).problem)
  }, { arbitrary: { runs: 1000 } })

  it("agrees with a UTF-8 decoder about every pair of bytes, and about every lead with its neighbours", () => {
    const tails = [[0x80], [0xbf], [0x7f], [0xc0], [0x80, 0x80], [0xbf, 0xbf], [0x80, 0x7f], [0x80, 0xc0]]
    for (let first = 0x80; first < 0x100; first++) {
      for (let second = 0; second < 0x100; second++) {
        for (const tail of [[], ...tails]) {
          if (tail.length > 0 && (second < 0x7f || second > 0xc0)) continue
          const bytes = Uint8Array.of(0x22, 0x61, first, second, ...tail, 0x22, 0x20, 0x20, 0x20, 0x20)
          const expected = isJson(bytes)
          const scanner = new Scanner()
          for (let size = 1; size <= bytes.length; size++) scanner.advance(bytes, size)
          assert.strictEqual(scanner.end() === undefined, expected, String(bytes))
          assert.strictEqual(scan(bytes).problem === undefined, expected, String(bytes))
        }
      }
    }
  })

  it("finds each special byte at each place of a long text", () => {
    for (let place = 1; place < 96; place++) {
      for (const byte of [0x00, 0x1f, 0x20, 0x21, 0x22, 0x5b, 0x5c, 0x5d, 0x7f, 0x80, 0xc3, 0xff]) {
        for (const offset of [0, 1, 2, 3]) {
          const bytes = new Uint8Array(512 + offset).subarray(offset).fill(0x61)
          bytes[0] = bytes[511] = 0x22
          bytes[place] = byte
          assert.strictEqual(scanned([bytes]).problem === undefined, isJson(bytes), `${byte} at ${place}`)
        }
      }
    }
  })

  it.each([
    ["no value at byte 0", ""],
    ["unexpected character at byte 3", "[1,]"],
    ["unexpected end at byte 6", "{\"a\":1"],
    ["unfinished string at byte 5", "[\"abc"],
    ["control character in a string at byte 3", "[\"a\nb\"]"],
    ["unknown escape at byte 3", "[\"\\x\"]"],
    ["unfinished number at byte 3", "[1.]"],
    ["unfinished number at byte 1", "-"],
    ["unexpected character after the end at byte 3", "{} {}"],
    ["more than 1000 levels at byte 1000", "[".repeat(1001)]
  ])("says %s", (expected, text) => {
    assert.strictEqual(problemOf(text), expected)
  })

  it("refuses invalid UTF-8 by its place", () => {
    const { problem } = scanned([bytesOf("[\"a\xff\"]")])
    assert.deepStrictEqual(problem, { offset: 3, reason: "invalid UTF-8" })
  })

  it("bounds the levels exactly, and keeps the first problem", () => {
    const levels = (count: number) => encoder.encode("[".repeat(count) + "]".repeat(count))
    assert.isUndefined(scanned([levels(1000)]).problem)
    assert.isDefined(scanned([levels(1001)]).problem)
    assert.isUndefined(scanned([levels(3)], undefined, 3).problem)
    const mixed = `${"[{\"a\":".repeat(500)}1${"}]".repeat(500)}`
    assert.isUndefined(problemOf(mixed))
    assert.isDefined(problemOf(mixed.replace("}]}]", "}}]]")))
    const scanner = new Scanner()
    const problem = scanner.advance(encoder.encode("]"))
    assert.strictEqual(scanner.advance(encoder.encode("][]")), problem)
    assert.strictEqual(scanner.end(), problem)
  })
})

describe("ranges", () => {
  const body = object({
    assistant_id: small,
    input: array(object({ type: small, text: raw, file: object({ id: small }) })),
    metadata: record(small),
    turn: raw
  })

  it("are those of the values on the paths of the shape", () => {
    const text = ` { "x" : {"turn":0} , "assistant_id" : -1.5e3 , "input" : [ {"type":"text","text" : "a\\u00e9é"},
      {"file":{"id":"1","y":[{"id":2}]},"type":"file"}, 7, [8] ], "turn": {"turn":[1,{"turn":2}]}, "metadata":{"k":"v"}} `
    assert.deepStrictEqual(found(text, body), [
      ["assistant_id", -1500],
      ["input", [
        [["type", "text"], ["text", "aéé"]],
        [["type", "file"], ["file", [["id", "1"]]]],
        7,
        [8]
      ]],
      ["metadata", [["k", "v"]]],
      ["turn", { turn: [1, { turn: 2 }] }]
    ])
  })

  it("are exact, whatever is around the value", () => {
    for (const value of ["1", "-0", "\"a\"", "true", "null", "[ 1 ]", "{ }", "\"😀\\\"\""]) {
      for (
        const [before, after] of [["{\"turn\":", "}"], ["{\"turn\" :\n", "\t}"], ["{\"a\":[{}],\"turn\":", ",\"b\":0}"]]
      ) {
        const bytes = encoder.encode(before + value + after)
        for (const size of cuts) {
          const range = scanned(cut(bytes, [size]), object({ turn: raw })).root?.field("turn")
          assert.strictEqual(strict.decode(bytes.subarray(range?.start, range?.end)), value)
        }
      }
    }
    assert.deepStrictEqual(found(" 12 ", small), 12)
    assert.deepStrictEqual(found("12", raw), 12)
    assert.deepStrictEqual(found("[1,2]", object({ a: raw })), [1, 2])
  })

  it.prop("of any document are those of its values", [documents, Cuts], ([inner, lengths]) => {
    const text = `{"items":[${strict.decode(inner)} , {"value": ${strict.decode(inner)} }],"pairs":{"a": ${
      strict.decode(inner)
    },"a":1}}`
    const bytes = encoder.encode(text)
    const shape = object({ items: array(object({ value: raw })), pairs: record(raw) })
    const { root } = scanned(cut(bytes, lengths), shape)
    const value = JSON.parse(strict.decode(inner))
    const rangeOf = (one: Shape.Found | null | undefined) => strict.decode(bytes.subarray(one?.start, one?.end))
    const items = root?.field("items")?.members ?? []
    assert.strictEqual(rangeOf(items[0]), strict.decode(inner))
    assert.strictEqual(rangeOf(items[1]?.field("value")), strict.decode(inner))
    assert.deepStrictEqual(JSON.parse(rangeOf(root?.field("pairs")?.members[1])), value)
    assert.strictEqual(root?.field("pairs")?.count, 2)
  }, { arbitrary: { runs: 200 } })

  it("are those of the last of several fields with one name, also when it is written with escapes", () => {
    assert.deepStrictEqual(found("{\"turn\":1,\"turn\":{\"a\":2}}", body), [["turn", { a: 2 }]])
    assert.deepStrictEqual(found("{\"turn\":1,\"\\u0074urn\":2}", body), [["turn", 2]])
    assert.deepStrictEqual(found("{\"\\u0074\\u0075\\u0072\\u006e\":2,\"turn\":1}", body), [["turn", 1]])
    assert.deepStrictEqual(found("{\"input\":[{\"text\":1},2],\"input\":[{\"type\":3}]}", body), [["input", [[[
      "type",
      3
    ]]]]])
    assert.deepStrictEqual(found("{\"input\":[1],\"input\":null}", body), [["input", null]])
    assert.deepStrictEqual(found("{\"callback_\\u0073ecret\":1}", object({ callback_secret: small })), [[
      "callback_secret",
      1
    ]])
  })

  it("are those of names with any escapes", () => {
    const shape = object({ "a/b\n\"\\": small, "é😀": small })
    const text = String
      .raw`{"a\/b\n\"\\":1,"\u0061\u002Fb\u000a\u0022\u005C":2,"\u00e9\ud83d\ude00":3,"é\uD83D\uDE00":4,"\u00e9":5}`
    assert.deepStrictEqual(found(text, shape), [["a/b\n\"\\", 2], ["é😀", 4]])
    assert.deepStrictEqual(found(String.raw`{"\u00e9":1,"\u0161":2,"\u0100a":3}`, object({ a: small })), [])
  })

  it("are not those of similar names", () => {
    const text =
      "{\"Turn\":1,\"turn \":2,\"tur\":3,\"turns\":4,\"\":5,\"\\u0000turn\":6,\"turn\\u0000\":7,\"tu\\\\u0072n\":8}"
    assert.deepStrictEqual(found(text, object({ turn: raw })), [])
    assert.deepStrictEqual(found(`{"${"t".repeat(5000)}":1,"a":[{"turn":2}],"turn":3}`, object({ turn: raw })), [[
      "turn",
      3
    ]])
    assert.deepStrictEqual(found("{\"\":1,\"é\":2,\"__proto__\":3}", object({ "": small, "é": small })), [["", 1], [
      "é",
      2
    ]])
  })

  it("of pairs keep their keys, in order, with repetitions", () => {
    assert.deepStrictEqual(
      found("{\"metadata\":{\"b\":\"1\",\"a\":\"2\",\"\\u0062\":\"3\",\"__proto__\":\"4\"}}", body),
      [
        ["metadata", [["b", "1"], ["a", "2"], ["b", "3"], ["__proto__", "4"]]]
      ]
    )
  })

  it("of more items than the shape allows are only counted, and the rest is validated", () => {
    const shape = object({ input: array(object({ a: array(small, 1) }), 2), metadata: record(small, 1), turn: raw })
    const text = "{\"input\":[{\"a\":[1,2]},{},{\"a\":[3]},4],\"metadata\":{\"a\":1,\"b\":2},\"turn\":5}"
    assert.deepStrictEqual(found(text, shape), [
      ["input", [[["a", [1]]], []]],
      ["metadata", [["a", 1]]],
      ["turn", 5]
    ])
    const { root } = scanned([encoder.encode(text)], shape)
    assert.deepStrictEqual(["input", "metadata"].map((name) => root?.field(name)?.count), [4, 2])
    assert.isTrue(root?.field("input")?.isTooLong)
    assert.isTrue(root?.field("input")?.members[0]?.field("a")?.isTooLong)
    assert.isDefined(scanned([encoder.encode(text.replace("4]", "4,]"))], shape).problem)
    const many = encoder.encode(`{"input":[${"{},".repeat(20_000)}0]}`)
    const list = scanned([many], object({ input: array(object({ a: small })) })).root?.field("input")
    assert.deepStrictEqual([list?.count, list?.members.length], [20_001, 10_000])
  })

  it("of counted lists have the number and kinds of their items", () => {
    const shape = object({ messages: counted })
    const listOf = (text: string) => scanned([encoder.encode(`{"messages":${text}}`)], shape).root?.field("messages")
    assert.deepInclude(listOf("[{},{\"a\":[1]}]"), { count: 2, kinds: Kind.object, kind: Kind.array })
    assert.deepInclude(listOf("[{},1,\"a\",null,true,[[0]]]"), { count: 6, kinds: 63 })
    assert.deepInclude(listOf("[]"), { count: 0, kinds: 0 })
    assert.deepInclude(listOf("{\"a\":1}"), { count: 0, kind: Kind.object })
  })

  it("of captured texts are readable without the document", () => {
    const shape = object({ task_id: captured, type: captured, turn: raw })
    const long = "x".repeat(1023)
    const text = `{"turn":["${"y".repeat(9000)}"],"type":"a","task_id":"\\u0031é","type":"completed","other":"z"}`
    for (const size of cuts) {
      const { root } = scanned(cut(encoder.encode(text), [size]), shape)
      assert.deepStrictEqual(["task_id", "type", "turn"].map((name) => root?.field(name)?.text), [
        "1é",
        "completed",
        undefined
      ])
      const tooLong = scanned(cut(encoder.encode(`{"task_id":"${long}","type":"${long.slice(1)}"}`), [size]), shape)
      assert.isUndefined(tooLong.root?.field("task_id")?.text)
      assert.strictEqual(tooLong.root?.field("type")?.text, long.slice(1))
    }
  })
})

describe("the shape of a schema", () => {
  it("has the maximum items of its arrays, and what any member of a union reads", () => {
    const { field } = {
      field: (name: string) => {
        const shape = Shape.shapeOf(Schema.Struct({
          list: Schema.NullOr(Schema.Array(Schema.Struct({ a: Schema.String })).check(Schema.isMaxLength(7))),
          either: Schema.optional(Schema.Union([Schema.String, Schema.Struct({ b: Schema.Int })])),
          item: Schema.Union([
            Schema.Struct({ a: Schema.String }),
            Schema.Struct({ a: Schema.Int, c: Schema.Boolean })
          ]),
          record: Schema.Record(Schema.String, Schema.String)
        }))
        return shape.fields[shape.names.indexOf(name)]
      }
    }
    assert.strictEqual(field("list")?.maxItems, 7)
    assert.deepStrictEqual(field("list")?.item?.names, ["a"])
    assert.deepStrictEqual(field("either")?.names, ["b"])
    assert.deepStrictEqual(field("item")?.names, ["a", "c"])
    assert.isDefined(field("record")?.pairs)
  })
})
