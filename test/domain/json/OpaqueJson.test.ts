import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as OpaqueJson from "../../../src/domain/json/OpaqueJson.ts"

const long = JSON.stringify("é".repeat(70_000))
const utf8 = new TextEncoder()

describe("opaque JSON", () => {
  it.each([["short", `{"a":"é"}`, "string"], ["long", long, "object"]])("keeps a %s text", (_, text, type) => {
    const json = OpaqueJson.fromText(text)
    assert.strictEqual(typeof json, type)
    assert.strictEqual(OpaqueJson.toText(json), text)
    assert.deepStrictEqual(Schema.decodeUnknownSync(OpaqueJson.FromBytes)(utf8.encode(text)), json)
  })

  it("is sent as pieces, without a copy of a large one", () => {
    const json = OpaqueJson.fromText(long)
    const pieces = OpaqueJson.toBytes([`{"a":`, "1", `,"b":`, json, "}"])
    assert.strictEqual<unknown>(pieces[1], json)
    assert.strictEqual(new TextDecoder().decode(OpaqueJson.concat(pieces)), `{"a":1,"b":${long}}`)
    assert.strictEqual(OpaqueJson.sizeOf(pieces), 2 + 140_000 + `{"a":1,"b":}`.length)
    assert.lengthOf(OpaqueJson.toBytes([json]), 1)
  })
})

describe("a schema of JSON text", () => {
  it("reads the keys of each document, whatever was read before", () => {
    const read = Schema.decodeUnknownSync(OpaqueJson.fromJsonText(Schema.Record(Schema.String, Schema.Int)))
    assert.deepStrictEqual(read(String.raw`{"a":0,"\\":1}`), { "a": 0, "\\": 1 })
    assert.deepStrictEqual(read(String.raw`{"a":0,"\n":1}`), { "a": 0, "\n": 1 })
    assert.throws(() => read("{"))
  })
})
