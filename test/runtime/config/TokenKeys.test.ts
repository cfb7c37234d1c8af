import { assert, describe, it } from "vitest"
import { rulesOf, secretsOf, warningsOf } from "../../../src/runtime/config/TokenKeys.ts"

const [one, other] = ["1".repeat(20) + "a".repeat(12), "2".repeat(20) + "b".repeat(12)]

describe("JWT_SECRET", () => {
  it.each([
    ["one secret", one, [one]],
    ["a list, and its whole text", `${one}, ${other}`, [one, other, `${one}, ${other}`]],
    ["a list with a comma at its end", `${one},`, [one, `${one},`]],
    ["one secret with commas", "a secret, not a list, of 32 bytes", ["a secret, not a list, of 32 bytes"]],
    ["one secret with %2C", `${one}%2C`, [`${one}%2C`]],
    ["a list with a comma in a secret", `${one}%2C,${other}`, [`${one},`, other, `${one}%2C,${other}`]],
    ["a secret and one that is too short", `${one},short`, [`${one},short`]]
  ])("is %s", (_, text, expected) => {
    assert.deepStrictEqual([...secretsOf(text)], expected)
    const { keys } = rulesOf({ JWT_SECRET: text }, undefined)
    assert.lengthOf(keys instanceof URL ? [] : keys, expected.length)
  })

  it("is warned of when it may be a list with a part that is too short, and refused when it is too short itself", () => {
    assert.match(warningsOf({ JWT_SECRET: `${one},short` }).join(), /^JWT_SECRET is used as one secret with commas/)
    assert.isEmpty(warningsOf({ JWT_SECRET: "a secret, not a list, of 32 bytes" }))
    assert.throws(() => rulesOf({ JWT_SECRET: "short,short" }, undefined), /JWT_SECRET must have 32 bytes or more/)
    assert.throws(() => rulesOf({}, ""), /^the file jwt-secret of DATA_DIR must have/)
  })
})
