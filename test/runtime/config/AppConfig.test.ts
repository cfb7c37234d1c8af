import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"

it.effect("reports every wrong setting in one message", () =>
  Effect.gen(function*() {
    const directory = temporaryDirectory()
    yield* Effect.addFinalizer(() => Effect.sync(() => removeDirectory(directory)))
    const settings = { DATA_DIR: directory, PORT: "abc", RETENTION: "soon", CLUSTER: "maybe", JWT_SECRET: "short" }
    const { message } = yield* Effect.flip(AppConfig.load(settings))
    assert.deepStrictEqual(message.split("\n"), [
      "The settings cannot be used:",
      "  PORT: Expected a string representing a finite number",
      "  JWT: JWT_SECRET must have 32 bytes or more",
      "  RETENTION: Expected a valid Duration string",
      "  CLUSTER: Expected \"true\" | \"yes\" | \"on\" | \"1\" | \"y\" | \"false\" | \"no\" | \"off\" | \"0\" | \"n\""
    ])
  }))

describe("in production", () => {
  const good = {
    NODE_ENV: "production",
    DATABASE_URL: "postgres://db.internal/tasks",
    JWT_SECRET: "a secret of the tests, long enough for HS256",
    CORE_URL: "http://core.internal",
    CORE_TOKEN: "a token of the core",
    INTERNAL_TOKENS: "an internal token of 32 characters or more",
    ASSISTANT_BACKEND_URL: "http://assistants.internal",
    ENCRYPTION_KEY: randomBytes(32).toString("base64")
  }
  const base64 = (text: string) => Buffer.from(text).toString("base64")
  const counting = Buffer.from(Array.from({ length: 32 }, (_, index) => index)).toString("base64")

  it.effect("reports all secrets that are easy to guess in one message without showing them", () =>
    Effect.gen(function*() {
      const bad = {
        INTERNAL_TOKENS: `${good.INTERNAL_TOKENS},short-token`,
        ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
        CORE_TOKEN: "changeme",
        JWT_SECRET: "secret".repeat(8)
      }
      const { message } = yield* Effect.flip(AppConfig.load({ ...good, ...bad }))
      assert.deepStrictEqual(message.split("\n"), [
        "The settings cannot be used:",
        "  JWT_SECRET: is trivial to guess",
        "  CORE_TOKEN: is trivial to guess",
        "  INTERNAL_TOKENS: each must have 32 characters or more in production",
        "  ENCRYPTION_KEY: is trivial to guess",
        "  a good secret is what `openssl rand -base64 32` prints"
      ])
      for (const secret of ["short-token", bad.ENCRYPTION_KEY, "changeme", "secretsecret"]) {
        assert.notInclude(message, secret)
      }
      const { isProduction } = yield* AppConfig.load({ ...good, ...bad, NODE_ENV: "" })
      assert.isFalse(isProduction)
    }))

  it.effect("accepts random secrets and carefully chosen ones", () =>
    Effect.gen(function*() {
      const tokens = [
        () => randomBytes(32).toString("base64"),
        () => randomBytes(16).toString("hex"),
        () => randomBytes(24).toString("base64url"),
        () => crypto.randomUUID(),
        () => "internal-token-for-the-tests-0001"
      ]
      for (let round = 0; round < 300; round++) {
        const secret = tokens[round % tokens.length]!()
        const settings = {
          ...good,
          JWT_SECRET: secret,
          CORE_TOKEN: secret.slice(0, 12),
          INTERNAL_TOKENS: secret,
          ENCRYPTION_KEY: round % 2 === 0 ? randomBytes(32).toString("base64") : base64(randomBytes(16).toString("hex"))
        }
        assert.isTrue((yield* AppConfig.load(settings)).isProduction)
      }
    }))

  it.effect("rejects every trivial key and token", () =>
    Effect.gen(function*() {
      const keys = [
        Buffer.alloc(32).toString("base64"),
        Buffer.alloc(32, 0xff).toString("base64"),
        counting,
        base64("0123456789abcdef0123456789abcdef"),
        base64("abcdefghijklmnopqrstuvwxyz012345"),
        base64("passwordpasswordpasswordpassword"),
        base64("aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb"),
        base64("please-change-me-before-you-go-!")
      ]
      for (const ENCRYPTION_KEY of keys) {
        const { message } = yield* Effect.flip(AppConfig.load({ ...good, ENCRYPTION_KEY }))
        assert.include(message, "ENCRYPTION_KEY: is trivial", ENCRYPTION_KEY)
      }
      for (const INTERNAL_TOKENS of ["x".repeat(40), "0123456789".repeat(4), "change-me-".repeat(4), "ab".repeat(16)]) {
        const { message } = yield* Effect.flip(AppConfig.load({ ...good, INTERNAL_TOKENS }))
        assert.include(message, "INTERNAL_TOKENS: one of them is trivial", INTERNAL_TOKENS)
      }
    }))

  it.effect("accepts a weak key for decryption only", () =>
    Effect.gen(function*() {
      const ENCRYPTION_KEY = `${good.ENCRYPTION_KEY},${Buffer.alloc(32, 7).toString("base64")}`
      assert.lengthOf((yield* AppConfig.load({ ...good, ENCRYPTION_KEY })).encryptionKeys, 2)
    }))
})
