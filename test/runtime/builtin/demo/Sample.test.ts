import { assert, it } from "@effect/vitest"
import * as Sample from "../../../../src/runtime/builtin/demo/Sample.ts"

it.each(
  [
    [{ type: "object", properties: { a: { type: "string" }, b: { type: "array", items: { type: "integer" } } } }, {
      a: "hi",
      b: [1]
    }],
    [{ $ref: "#/$defs/x", $defs: { x: { enum: ["one", "two"] } } }, "one"],
    [{ anyOf: [{ type: "boolean" }, { type: "null" }] }, true],
    [{ type: ["null", "string"] }, null],
    [{ type: "number", minimum: 7 }, 7],
    [{ type: "string", maxLength: 1 }, "h"],
    [{ const: 3 }, 3],
    ["no schema", { answer: "hi" }]
  ] as const
)("makes a value of %j", (schema, expected) => {
  assert.deepStrictEqual(Sample.of(schema, "hi"), expected)
})

it("ends for a schema that refers to itself, or asks for too much", () => {
  const cyclic = { type: "array", minItems: 1e9, items: { $ref: "#" } }
  assert.isBelow(JSON.stringify(Sample.of(cyclic, "hi")).length, 1_000_000)
})
