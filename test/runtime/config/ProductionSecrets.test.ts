import { randomBytes } from "node:crypto"
import { assert, describe, it } from "vitest"
import * as ProductionSecrets from "../../../src/runtime/config/ProductionSecrets.ts"
import { all } from "../../../src/runtime/config/settings.ts"
import type { Environment } from "../../../src/services/settings/Setting.ts"

const problemsOf = (env: Environment) => ProductionSecrets.problemsOf(all, env)

const base64 = (bytes: string | Uint8Array) => Buffer.from(bytes).toString("base64")

describe("a secret in production", () => {
  it("is accepted when it is random or carefully chosen", () => {
    const tokens = [
      () => base64(randomBytes(32)),
      () => randomBytes(16).toString("hex"),
      () => randomBytes(24).toString("base64url"),
      () => crypto.randomUUID(),
      () => "internal-token-for-the-tests-0001"
    ]
    for (const secret of Array.from({ length: 60 }, () => tokens.map((make) => make())).flat()) {
      for (const ENCRYPTION_KEY of [base64(randomBytes(32)), base64(randomBytes(16).toString("hex"))]) {
        const given = { JWT_SECRET: secret, CORE_TOKEN: secret.slice(0, 20), INTERNAL_TOKENS: secret, ENCRYPTION_KEY }
        assert.deepStrictEqual(problemsOf(given), [])
      }
    }
  })

  it("is judged as it is read: a text with a short part is one secret, and each part of a list one of several", () => {
    assert.isEmpty(problemsOf({ JWT_SECRET: "q8Zk3v9Qm1Xw8Lr5T,abc,y2Bn7Hc4Jd6Fg0Psaq" }))
    const [JWT_SECRET, CORE_TOKEN] = [
      [base64(randomBytes(32)), "x".repeat(32)].join(),
      `${crypto.randomUUID()},${"x".repeat(16)}`
    ]
    const trivial = ["JWT_SECRET: is trivial to guess", "CORE_TOKEN: is trivial to guess"]
    assert.deepStrictEqual(problemsOf({ JWT_SECRET, CORE_TOKEN }).slice(0, 2), trivial)
  })

  it.each([
    Buffer.alloc(32),
    Buffer.alloc(32, 0xff),
    Buffer.from(Array.from({ length: 32 }, (_, index) => index)),
    "0123456789abcdef0123456789abcdef",
    "abcdefghijklmnopqrstuvwxyz012345",
    "passwordpasswordpasswordpassword",
    "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb",
    "please-change-me-before-you-go-!"
  ])("is refused as the key %s", (key) => {
    assert.include(problemsOf({ ENCRYPTION_KEY: base64(key) }), "ENCRYPTION_KEY: is trivial to guess")
  })

  it.each(["x".repeat(40), "0123456789".repeat(4), "change-me-".repeat(4), "ab".repeat(16)])(
    "is refused as the token %s",
    (INTERNAL_TOKENS) => {
      assert.include(problemsOf({ INTERNAL_TOKENS }), "INTERNAL_TOKENS: one of them is trivial to guess")
    }
  )
})
