import { Redacted, Result } from "effect"
import { assert, describe, it } from "vitest"
import * as ProductionSecrets from "../../../src/runtime/config/ProductionSecrets.ts"
import { all } from "../../../src/runtime/config/settings.ts"
import { rulesOf, secretsOf } from "../../../src/runtime/config/TokenKeys.ts"
import { type Environment, secretWarnings } from "../../../src/services/settings/Setting.ts"

const warningsOf = (env: Environment) => secretWarnings(all, env).join()

const [one, other] = ["1".repeat(20) + "a".repeat(12), "2".repeat(20) + "b".repeat(12)]

describe("JWT_SECRET", () => {
  it.each([
    ["one secret", one, [one]],
    ["a list, and its whole text", `${one}, ${other}`, [one, other, `${one}, ${other}`]],
    ["a list with a comma at its end", `${one},`, [one, `${one},`]],
    ["one secret with commas", "a secret, not a list, of 32 bytes", ["a secret, not a list, of 32 bytes"]],
    ["one secret with %2C", `${one}%2C`, [`${one}%2C`]],
    ["a list with a comma in a secret", `${one}%2C,${other}`, [`${one},`, other, `${one}%2C,${other}`]],
    ["a list on several lines", `${one},\n${other}`, [one, other]],
    ["a secret and one that is too short", `${one},short`, [`${one},short`]]
  ])("is %s", (_, text, expected) => {
    assert.deepStrictEqual([...secretsOf(text)], expected)
    const { keys } = rulesOf({ JWT_SECRET: text }, undefined)
    assert.lengthOf(keys instanceof URL ? [] : keys, expected.length)
  })

  it("is warned of when it may be a list with a part that is too short, and refused when it is too short itself", () => {
    assert.match(warningsOf({ JWT_SECRET: `${one},short` }), /^JWT_SECRET is used as one secret with commas.*32 bytes$/)
    assert.isEmpty(warningsOf({ JWT_SECRET: "a secret, not a list, of 32 bytes" }))
    assert.throws(() => rulesOf({ JWT_SECRET: "short,short" }, undefined), /JWT_SECRET must have 32 bytes or more/)
    assert.throws(() => rulesOf({}, ""), /^the file jwt-secret of DATA_DIR must have/)
  })
})

describe.each(["CORE_TOKEN", "TOKEN_URL_TOKEN"])("%s", (name) => {
  const secrets = (text: string) => {
    const read = all.find((setting) => setting.name === name)?.read({ [name]: text })
    const found = read === undefined ? undefined : Result.getOrThrow(read)
    return Array.isArray(found) ? found.filter(Redacted.isRedacted).map(Redacted.value) : []
  }

  it("is one secret when a part of it is short, with a warning when another one is long", () => {
    for (const text of ["x,q8Zk3v9Qm1Xw8Lr5Ty2Bn7Hc4Jd6Fg0Psaq", `${one},abc,${other}`, `${one},${"a".repeat(15)}`]) {
      assert.deepStrictEqual(secrets(text), [text])
      assert.match(warningsOf({ [name]: text }), new RegExp(`^${name} is used as one secret with commas.*16 bytes$`))
      assert.isEmpty(ProductionSecrets.problemsOf(all, { [name]: "q8Zk3v9Qm1,abc,y2Bn7Hc4Jd" }))
    }
    assert.isEmpty(warningsOf({ [name]: "a token, with commas" }))
  })

  it("is a list when every part is long, also on several lines", () => {
    const [a, b] = [one.slice(0, 16), other]
    assert.deepStrictEqual(secrets(`${a},${b}`), [a, b, `${a},${b}`])
    assert.deepStrictEqual(secrets(`${a},\n  ${b}`), [a, b])
    assert.isEmpty(warningsOf({ [name]: `${a},${b}` }))
  })
})
