import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Digest } from "effect/crypto"
import * as Limits from "../../../../src/domain/Limits.ts"
import { bodies } from "../../../../src/http/handlers/body/Bodies.ts"
import { decodeBytes } from "../../../../src/http/handlers/body/JsonBody.ts"
import { ValueCounter } from "../../../../src/http/handlers/body/ValueCounter.ts"

const encode = (text: string) => new TextEncoder().encode(text)

/** Items and members at any depth. */
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

  it("counts what JSON.parse finds, however the bytes are cut", () => {
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

describe("a body", () => {
  const errorsOf = (text: string) =>
    decodeBytes(bodies.createTask, encode(text), undefined).pipe(
      Effect.flip,
      Effect.map(({ errors }) => errors),
      Effect.provide(Digest.layerWebCrypto)
    )

  it.effect("may have so many values and no more", () =>
    Effect.gen(function*() {
      const withItems = (count: number) => `{"assistant_id":0,"x":[${"0,".repeat(count - 1)}0]}`
      assert.deepStrictEqual(Object.keys(yield* errorsOf(withItems(Limits.jsonValues - 2))), ["assistant_id", "input"])
      assert.deepStrictEqual((yield* errorsOf(withItems(Limits.jsonValues - 1)))["body"], [
        "Must not have more than 250000 values"
      ])
    }))

  it.effect("is answered in few words, however long its fields and texts are", () =>
    Effect.gen(function*() {
      const key = "k".repeat(1_000_000)
      const texts = `${"\"\\u0000\",".repeat(1000)}""`
      const errors = yield* errorsOf(`{"${key}":{"${key}":[${texts}]}}`)
      assert.isBelow(JSON.stringify(errors).length, 200_000)
    }))
})
