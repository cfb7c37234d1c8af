import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { read } from "../../../src/domain/json/Reader.ts"
import { bytesOf, invalid, valid } from "../jsonCorpus.ts"
import { brokenDocuments, documentsWithValues } from "../jsonDocuments.ts"

const decoder = new TextDecoder("utf-8", { fatal: true })
const encoder = new TextEncoder()

const readText = (text: string): unknown => Result.getOrThrow(read(encoder.encode(text)))

/** `deepStrictEqual` does not compare the order of keys. */
const assertReads = (bytes: Uint8Array, expected: unknown) => {
  const actual = Result.getOrThrow(read(bytes))
  assert.deepStrictEqual(actual, expected)
  assert.strictEqual(JSON.stringify(actual), JSON.stringify(expected))
}

/** Compares with `JSON.parse`, unless its answer may be wrong: V8 13.6 to 14.6 give a key with escapes to another document before Node 26.12.1. */
const assertLikeParse = (bytes: Uint8Array) => {
  const text = decoder.decode(bytes)
  const mayBeWrong = text.includes("{") && text.includes("\\")
  if (mayBeWrong) assert.isTrue(Result.isSuccess(read(bytes)))
  else assertReads(bytes, JSON.parse(text))
}

// Before Node 26.12.1 `JSON.parse` gives a key of the first document to the second one.
const first = String.raw`{"a":0,"\\":1}`
const second = String.raw`{"a":0,"\n":1}`

describe("the reader", () => {
  it("reads the corpus like JSON.parse", () => {
    for (const text of valid) assertLikeParse(bytesOf(text))
    for (const text of invalid) assert.isTrue(Result.isFailure(read(bytesOf(text))), JSON.stringify(text))
  })

  it.prop("reads any document", [documentsWithValues], ([{ bytes, value }]) => assertReads(bytes, value), {
    arbitrary: { runs: 300 }
  })

  it.prop("refuses what JSON.parse refuses", [brokenDocuments], ([bytes]) => {
    if (Result.isSuccess(read(bytes))) assertLikeParse(bytes)
    else assert.throws(() => JSON.parse(decoder.decode(bytes)))
  }, { arbitrary: { runs: 300 } })

  it("gives no key of one document to another one", () => {
    for (const text of [first, second, first, second]) {
      JSON.parse(first)
      assert.deepStrictEqual(Object.keys(readText(text) as object), ["a", text === first ? "\\" : "\n"])
    }
  })

  it("makes own properties of all names, and the last of several counts", () => {
    const value = readText(`{"__proto__":{"polluted":1},"constructor":2,"a":1,"a":2,"__proto__":3}`) as object
    assert.deepStrictEqual(Object.entries(value), [["__proto__", 3], ["constructor", 2], ["a", 2]])
    assert.strictEqual(Object.getPrototypeOf(value), Object.prototype)
    assert.notProperty({}, "polluted")
  })

  it("keeps what JavaScript's numbers and texts can hold", () => {
    assert.isTrue(Object.is(readText("-0"), -0))
    assert.deepStrictEqual(readText("[1234567890123456789,1e400,0.1,123456789]"), [
      1234567890123456800,
      Infinity,
      0.1,
      123456789
    ])
    assert.deepStrictEqual(readText(String.raw`["\ud800","\u0000","${"é".repeat(100)}"]`), [
      "\ud800",
      "\0",
      "é".repeat(100)
    ])
    assert.strictEqual(readText("\"\uFEFFa\""), "\uFEFFa")
    assert.deepStrictEqual(read(encoder.encode("[1")), Result.fail({ offset: 2, reason: "unexpected end" }))
  })
})
