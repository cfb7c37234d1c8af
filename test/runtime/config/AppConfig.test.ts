import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import * as os from "node:os"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"
import { useDirectory } from "../../kit/suite.ts"

const DATA_DIR = useDirectory()

it.effect("reports every wrong setting once, in one message", () =>
  Effect.gen(function*() {
    const directory = temporaryDirectory()
    yield* Effect.addFinalizer(() => Effect.sync(() => removeDirectory(directory)))
    const wrong = { PORT: "abc", RETENTION: "soon", CLUSTER: "maybe", JWT_SECRET: "short", FACADES: "chat" }
    const settings = { DATA_DIR: directory, ...wrong }
    const { message } = yield* Effect.flip(AppConfig.load(settings))
    assert.deepStrictEqual(message.split("\n"), [
      "The settings cannot be used:",
      "  PORT: Expected a string representing a finite number",
      "  RETENTION: Expected a valid Duration string",
      "  CLUSTER: Expected \"true\" | \"yes\" | \"on\" | \"1\" | \"y\" | \"false\" | \"no\" | \"off\" | \"0\" | \"n\"",
      "  JWT: JWT_SECRET must have 32 bytes or more",
      "  FACADES: must be off, or a list of openai, mcp, a2a"
    ])
  }))

describe("in production", () => {
  const good = {
    NODE_ENV: "production",
    DATABASE_URL: "postgres://db.internal/tasks",
    JWT_SECRET: "a secret of the tests, long enough for HS256",
    PUBLIC_URL: "http://tasks.internal",
    CORE_URL: "http://core.internal",
    CORE_TOKEN: "a token of the core",
    INTERNAL_TOKENS: "an internal token of 32 characters or more",
    ASSISTANT_BACKEND_URL: "http://assistants.internal",
    ENCRYPTION_KEY: randomBytes(32).toString("base64")
  }
  it.effect("names each missing setting once", () =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(AppConfig.load({ NODE_ENV: "production" }))
      assert.strictEqual(
        message,
        "The settings cannot be used:\n  not set, and NODE_ENV is production: DATABASE_URL, JWT_SECRET or JWT_PUBLIC_KEY"
          + " or JWT_JWKS_URL, CORE_URL, INTERNAL_TOKENS, ASSISTANT_BACKEND_URL, ENCRYPTION_KEY"
      )
      const keys = yield* Effect.flip(
        AppConfig.load({ ...good, INTERNAL_TOKENS: ",", JWT_JWKS_URL: "http://keys.internal" })
      )
      assert.deepStrictEqual(keys.message.split("\n").slice(1), [
        "  INTERNAL_TOKENS: must not be empty",
        "  JWT: set only one of JWT_SECRET, JWT_JWKS_URL"
      ])
    }))

  it.effect("needs no assistant backend for a core of its own, and keeps files only then", () =>
    Effect.gen(function*() {
      const none = { ...good, ASSISTANT_BACKEND_URL: "none" }
      const { assistantBackendUrl, hasBackend } = yield* AppConfig.load(none)
      assert.deepStrictEqual([assistantBackendUrl, hasBackend], ["none", false])
      const problemsOf = (env: Readonly<Record<string, string | undefined>>, part?: AppConfig.ServedPart) =>
        Effect.map(Effect.flip(AppConfig.load(env, part)), ({ message }) => message.split("\n").slice(1))
      assert.deepStrictEqual(yield* problemsOf({ DATA_DIR, ASSISTANT_BACKEND_URL: "none" }), [
        "  ASSISTANT_BACKEND_URL: is none, so CORE_URL must be set: the built-in core calls an assistant backend"
      ])
      assert.deepStrictEqual(yield* problemsOf(none, "core"), [
        "  ASSISTANT_BACKEND_URL: must be set to a URL for a core that is served alone"
      ])
      assert.deepStrictEqual(yield* problemsOf({ ...good, FILES_DIR: os.tmpdir() }), [
        "  FILES_DIR: requires ASSISTANT_BACKEND_URL=none: otherwise the assistant backend keeps the files"
      ])
      assert.match((yield* problemsOf({ ...none, FILES_DIR: "/dev/null/files" }))[0] ?? "", /^ {2}FILES_DIR: /)
    }))

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

  it.effect("warns of a core with an internal token, and refuses a token for both", () =>
    Effect.gen(function*() {
      const [warning, ...others] = (yield* AppConfig.load(good)).warnings
      assert.match(warning ?? "", /^CORE_EVENT_TOKENS is not set/)
      assert.isEmpty(others)
      const CORE_EVENT_TOKENS = "a token for the events of runs with 32 characters or more"
      assert.isEmpty((yield* AppConfig.load({ ...good, CORE_EVENT_TOKENS })).warnings)
      const { message } = yield* Effect.flip(
        AppConfig.load({ ...good, CORE_EVENT_TOKENS: `${CORE_EVENT_TOKENS},${good.INTERNAL_TOKENS}` })
      )
      assert.include(message, "CORE_EVENT_TOKENS: must not contain one of INTERNAL_TOKENS")
      const short = yield* Effect.flip(AppConfig.load({ ...good, CORE_EVENT_TOKENS: "short" }))
      assert.include(short.message, "CORE_EVENT_TOKENS: each must have 32 characters or more in production")
    }))

  it.effect("accepts a weak key for decryption only", () =>
    Effect.gen(function*() {
      const ENCRYPTION_KEY = `${good.ENCRYPTION_KEY},${Buffer.alloc(32, 7).toString("base64")}`
      assert.lengthOf((yield* AppConfig.load({ ...good, ENCRYPTION_KEY })).encryptionKeys, 2)
    }))
})

describe("variables of proxies", () => {
  const warningsWith = (env: Readonly<Record<string, string>>) =>
    Effect.map(
      AppConfig.load({ DATA_DIR, ...env }),
      ({ warnings }) => warnings.filter((warning) => warning.includes("_PROXY"))
    )
  const both = { http_proxy: "http://p:1", https_proxy: "http://p:1" }
  const socks = "socks5://127.0.0.1:7891"

  it.effect.each<[Readonly<Record<string, string>>, ReadonlyArray<string>]>([
    [{ ...both, all_proxy: "http://p:1", NO_PROXY: "a.example,\n\tb.example\nc.example" }, []],
    [{ ...both, all_proxy: socks }, ["ALL_PROXY is ignored, because HTTPS_PROXY and HTTP_PROXY are set"]],
    [{ NO_PROXY: "10.0.0.0/255.0.0.0" }, []],
    [{ no_proxy: "http://internal.example" }, []],
    [{ ...both, NO_PROXY: "a.example 10.0.0.0/255.0.0.0,http://b.example" }, [
      "NO_PROXY must be a list of names, addresses and ranges, as in .internal,10.0.0.0/8; "
      + "ignored: 10.0.0.0/255.0.0.0, http://b.example"
    ]]
  ])("that cannot matter stop no start: %j", ([env, warnings]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* warningsWith(env), warnings)
    }))

  it.effect.each([{ all_proxy: socks }, { HTTPS_PROXY: "http://p:1", ALL_PROXY: socks }])(
    "are judged: %j",
    (env) =>
      Effect.gen(function*() {
        assert.include((yield* Effect.flip(warningsWith(env))).message, "ALL_PROXY: must be the URL of an HTTP proxy")
      })
  )
})
