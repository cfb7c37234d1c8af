import { assert, describe, it } from "vitest"
import { isDeeperThan, problemsOf } from "../../../../src/runtime/builtin/backend/ToolArguments.ts"
import { cpuOf } from "../../../kit/cpu.ts"

const city = { type: "object", properties: { city: { type: "string" }, days: { type: "integer" } }, required: ["city"] }

/** Each definition references the next one twice, so an expansion contains the last one 2^`levels` times. */
const doubling = (levels: number) => ({
  type: "object",
  properties: { a: { $ref: "#/$defs/d0" } },
  $defs: Object.fromEntries(
    Array.from({ length: levels }, (_, n) => {
      const next = n + 1 < levels ? { $ref: `#/$defs/d${n + 1}` } : { type: "string" }
      return [`d${n}`, { type: "object", properties: { l: next, r: next }, anyOf: [next, next] }]
    })
  )
})

const nested = (levels: number): never => Array.from({ length: levels }).reduce((inner) => [inner], 0 as never) as never

describe("a tool's arguments", () => {
  it("are checked by the common keywords of JSON Schema", () => {
    const check = problemsOf
    assert.deepStrictEqual(check(city, { city: "Oslo", days: 2, more: null }), [])
    assert.deepStrictEqual(check(city, { town: 1 }), [`Missing key at ["city"]`])
    assert.deepStrictEqual(check(city, { city: 1 }), [`Expected string, got number at ["city"]`])
    assert.deepStrictEqual(check(city, { city: "", days: 1.5 }), [`Expected integer, got number at ["days"]`])
    const closed = { ...city, additionalProperties: false }
    assert.deepStrictEqual(check(closed, { city: "", x: 1 }), [`Unexpected key at ["x"]`])
    const cases: ReadonlyArray<readonly [schema: object, right: unknown, wrong: unknown]> = [
      [{ enum: ["a", { b: [1] }] }, { b: [1] }, "b"],
      [{ const: null }, null, 0],
      [{ type: ["string", "null"] }, null, 1],
      [{ minimum: 1, maximum: 3 }, 3, 4],
      [{ exclusiveMinimum: 1, exclusiveMaximum: 3 }, 2, 1],
      [{ minLength: 1, maxLength: 2 }, "ab", "abc"],
      [{ items: { type: "number" }, minItems: 1, maxItems: 2 }, [1], ["1"]],
      [{ prefixItems: [{ type: "string" }], items: false }, ["a"], ["a", "b"]],
      [{ additionalProperties: { type: "number" } }, { a: 1 }, { a: "1" }],
      [{ anyOf: [{ type: "string" }, { type: "number" }] }, 1, true],
      [{ oneOf: [{ type: "integer" }, { type: "number" }] }, 1.5, 1],
      [{ allOf: [{ type: "number" }, { minimum: 2 }] }, 2, 1],
      [{ $ref: "#/$defs/a~1b", $defs: { "a/b": { type: "string" } } }, "x", 1]
    ]
    for (const [schema, right, wrong] of cases) {
      assert.deepStrictEqual(check(schema as never, right as never), [], JSON.stringify(schema))
      assert.isNotEmpty(check(schema as never, wrong as never), JSON.stringify(schema))
    }
  })

  it("pass when a keyword is unknown or of a wrong type", () => {
    for (
      const schema of [
        { type: 1, properties: 2, required: "city", items: 3, anyOf: {}, enum: {}, $ref: 4 },
        { $ref: "#/nowhere" },
        { $ref: "https://elsewhere.example/schema" },
        { $ref: "#/%" },
        { pattern: "(a+)+$" },
        true,
        null,
        "x"
      ]
    ) {
      assert.deepStrictEqual(problemsOf(schema as never, { city: "a".repeat(100_000) }), [], JSON.stringify(schema))
    }
    const proto = { properties: JSON.parse(`{"__proto__": {"type": "string"}}`) }
    assert.isNotEmpty(problemsOf(proto, JSON.parse(`{"__proto__": 1}`)))
  })

  it("are checked within a budget, regardless of the schema", () => {
    const values = Array.from({ length: 20_000 }, (_, n) => n)
    const keys = Object.fromEntries(values.map((n) => [`k${n}`, n]))
    const required = Object.keys(keys)
    const self = { $ref: "#" }
    const list = { $ref: "#/$defs/list" }
    const attacks: ReadonlyArray<readonly [schema: object, given: unknown]> = [
      [doubling(26), { a: { l: { l: 1 } } }],
      [doubling(26), { a: nested(30) }],
      [self, {}],
      [
        { ...list, $defs: { list: { anyOf: Array.from({ length: 3 }, () => ({ items: list, minItems: 2 })) } } },
        nested(40)
      ],
      [{ anyOf: values.map(() => ({ items: { type: "string" } })) }, values],
      [{ anyOf: values.map(() => ({ additionalProperties: false })) }, keys],
      [{ items: { enum: values } }, values.map(String)],
      [{ allOf: values.map(() => ({ required })) }, {}],
      [{ items: { $ref: `#/${"/".repeat(900)}` } }, values],
      [{ items: { $ref: `#${"/x".repeat(500_000)}` } }, values],
      [{ items: { type: values.map((n) => `t${n}`) } }, values]
    ]
    for (const [index, [schema, given]] of attacks.entries()) {
      let problems: ReadonlyArray<string> = []
      const cpu = cpuOf(() => problems = problemsOf(schema as never, given as never))
      assert.isBelow(cpu, 150, `attack ${index}`)
      assert.isBelow(problems.join("").length, 20_000)
    }
  })

  it("are too deep when they have more levels than allowed", () => {
    assert.isFalse(isDeeperThan(nested(32), 32))
    assert.isTrue(isDeeperThan(nested(33), 32))
    assert.isTrue(isDeeperThan(JSON.parse("[".repeat(100_000) + "]".repeat(100_000)), 32))
  })
})
