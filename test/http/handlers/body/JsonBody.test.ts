import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Digest } from "effect/crypto"
import * as Limits from "../../../../src/domain/Limits.ts"
import { Api } from "../../../../src/http/contract/Api.ts"
import { bodies } from "../../../../src/http/handlers/body/Bodies.ts"
import { decodeBytes } from "../../../../src/http/handlers/body/JsonBody.ts"
import { ValueCounter } from "../../../../src/http/handlers/body/ValueCounter.ts"

const encode = (text: string) => new TextEncoder().encode(text)

/** The number of items and members at any depth. */
const valuesOf = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Object.values(value).reduce((sum: number, item) => sum + 1 + valuesOf(item), 0)
    : 0

describe("ValueCounter", () => {
  const samples = [
    `[]`,
    `{}`,
    `[ ]`,
    `[[],[ ],{},{ "a" : [] }]`,
    `[1,2,3]`,
    `{"a":1,"b":{"c":[null,true]},"d":"x"}`,
    `["[,]","\\"[,","\\\\",{"{,":"\\\\\\",["}]`,
    ` [ "я" , [ [ [ 0 ] ] ] ] `
  ]

  it("counts the same values as JSON.parse, at every cut between two chunks", () => {
    for (const sample of samples) {
      const bytes = encode(sample)
      for (let cut = 0; cut <= bytes.length; cut++) {
        const counter = new ValueCounter()
        counter.add(bytes.subarray(0, cut))
        counter.add(bytes.subarray(cut))
        assert.strictEqual(counter.count, valuesOf(JSON.parse(sample)), `${sample} cut at ${cut}`)
      }
    }
  })
})

describe("bodies", () => {
  it("are decoded by the schemas that the contract declares", () => {
    const declared = Object.values(Api.groups).flatMap(({ endpoints }) => Object.values(endpoints)).flatMap((
      { payload }
    ) => payload.get("application/json")?.schemas ?? [])
    assert.lengthOf(declared, 10)
    const decoding = new Set(Object.values(bodies).map(({ schema }) => Schema.toCodecJson(schema).ast))
    for (const { ast } of declared) assert.isTrue(decoding.has(ast), String(ast.annotations?.["identifier"]))
  })
})

describe("decodeBytes", () => {
  const errorsOf = (text: string) =>
    Digest.Digest.pipe(
      Effect.flatMap((digest) => decodeBytes(digest, bodies.createTask, encode(text), undefined)),
      Effect.flip,
      Effect.map(({ errors }) => errors),
      Effect.provide(Digest.layerWebCrypto)
    )

  it.effect("accepts the maximum number of values and rejects one more", () =>
    Effect.gen(function*() {
      const withItems = (count: number) => `{"assistant_id":0,"x":[${"0,".repeat(count - 1)}0]}`
      assert.deepStrictEqual(Object.keys(yield* errorsOf(withItems(Limits.jsonValues - 2))), ["assistant_id", "input"])
      assert.deepStrictEqual((yield* errorsOf(withItems(Limits.jsonValues - 1)))["body"], [
        "Must not have more than 250000 values"
      ])
    }))

  it.effect("bounds the size of its errors for bodies with long field names and many invalid texts", () =>
    Effect.gen(function*() {
      const key = "k".repeat(1_000_000)
      const texts = `${"\"\\u0000\",".repeat(1000)}""`
      const errors = yield* errorsOf(`{"${key}":{"${key}":[${texts}]}}`)
      assert.isBelow(JSON.stringify(errors).length, 200_000)
    }))
})
