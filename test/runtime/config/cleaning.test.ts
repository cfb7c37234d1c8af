/** What files, shells and Kubernetes add to the values of variables. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { generateKeyPairSync } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import * as Addresses from "../../../src/runtime/config/Addresses.ts"
import * as AppConfig from "../../../src/runtime/config/AppConfig.ts"
import { all } from "../../../src/runtime/config/settings.ts"
import { removeDirectory, temporaryDirectory } from "../../kit/directories.ts"
import { useDirectory } from "../../kit/suite.ts"

const DATA_DIR = useDirectory()
const secret = "an-internal-token-for-the-tests-0001"
const load = (more: Readonly<Record<string, string>>) => AppConfig.load({ DATA_DIR, ...more })
const messageOf = (more: Readonly<Record<string, string>>) =>
  Effect.map(Effect.flip(load(more)), ({ message }) => message)

const wrapped: ReadonlyArray<readonly [string, (text: string) => string]> = [
  ["a line break at its end", (text) => `${text}\n`],
  ["a line break of Windows", (text) => `${text}\r\n`],
  ["blanks around it", (text) => ` \t${text} `],
  ["a byte order mark", (text) => `\uFEFF${text}`],
  ["double quotes", (text) => `"${text}"`],
  ["single quotes, and a line break after them", (text) => `'${text}'\n`]
]

describe.each(wrapped)("a value with %s", (_, wrap) => {
  it.effect("is read without, in secrets, lists, URLs, numbers and names, and a warning names it", () =>
    Effect.gen(function*() {
      const given = {
        JWT_SECRET: secret,
        CORE_TOKEN: secret,
        INTERNAL_TOKENS: secret,
        OPENAI_API_KEY: secret,
        OPENAI_BASE_URL: "http://model.example/v1",
        OPENAI_MODEL: "m",
        CORE_URL: "http://127.0.0.1:4000",
        DATABASE_URL: "postgres://db/a",
        PORT: "3100",
        CLUSTER: "off",
        RETENTION: "2 days",
        JWT_ISSUER: "issuer"
      }
      const config = yield* load(Object.fromEntries(Object.entries(given).map(([name, text]) => [name, wrap(text)])))
      assert.deepStrictEqual([config.coreTokens, config.internalTokens].flat().map(Redacted.value), [secret, secret])
      assert.strictEqual(Redacted.value(config.model?.apiKey ?? Redacted.make("")), secret)
      assert.deepStrictEqual([config.coreUrl, config.port, config.jwtIssuer], ["http://127.0.0.1:4000", 3100, "issuer"])
      assert.strictEqual(config.databaseUrl?.options.database, "a")
      assert.deepStrictEqual(
        config.tokenRules,
        (yield* load({ JWT_SECRET: secret, JWT_ISSUER: "issuer" })).tokenRules
      )
      assert.include(config.warnings.join("\n"), `around ${Object.keys(given).join(", ")} are ignored`)
      assert.notInclude(config.warnings.join("\n"), secret)
      assert.notInclude((yield* load(given)).warnings.join("\n"), "are ignored")
    }))
})

it.effect("a blank value, and one of empty quotes, is the same as none", () =>
  Effect.gen(function*() {
    const blank = Object.fromEntries(
      all.map(({ name }, index) => [name, ["", " ", "\n", "\"\"", "' '"][index % 5] ?? ""])
    )
    const { dataDir: _, extensions: _1, warnings, ...config } = yield* AppConfig.load({ ...blank, DATA_DIR })
    const { dataDir: _2, extensions: _3, warnings: _4, ...usual } = yield* load({})
    assert.deepStrictEqual(JSON.stringify(config), JSON.stringify(usual))
    assert.deepStrictEqual(warnings, [])
  }))

it.effect("an empty file of DATA_DIR is named: an empty token would accept requests without one", () =>
  Effect.gen(function*() {
    const directory = temporaryDirectory()
    yield* Effect.addFinalizer(() => Effect.sync(() => removeDirectory(directory)))
    for (const name of ["internal-token", "core-token", "jwt-secret", "encryption-key"]) {
      fs.writeFileSync(path.join(directory, name), "\n")
      assert.include(yield* messageOf({ DATA_DIR: directory }), `${path.join(directory, name)} is empty: restore it`)
      fs.rmSync(path.join(directory, name))
    }
  }))

it.effect("no warning names a PEM that ends with a line break, as its file does", () =>
  Effect.gen(function*() {
    const { publicKey } = generateKeyPairSync("ed25519")
    const JWT_PUBLIC_KEY = String(publicKey.export({ format: "pem", type: "spki" }))
    assert.isEmpty((yield* load({ JWT_PUBLIC_KEY })).warnings)
  }))

it.effect("production is production also with a line break", () =>
  Effect.gen(function*() {
    assert.include(
      yield* messageOf({ NODE_ENV: "production\r\n" }),
      "not set, and NODE_ENV is production: DATABASE_URL"
    )
  }))

it.effect("a variable whose name begins with a byte order mark is read", () =>
  Effect.gen(function*() {
    assert.strictEqual((yield* load({ "\uFEFFPORT": "3100" })).port, 3100)
  }))

describe.each(all.filter(({ isMultiline }) => isMultiline !== true).map(({ name }) => name))("%s", (name) => {
  it.effect("is refused, without being shown, when it has a line break, a NUL or quotes within", () =>
    Effect.gen(function*() {
      for (const text of ["first\nsecond", "first\r\nsecond", "first\u0000second", `"first","second"`]) {
        const lines = (yield* messageOf({ [name]: text })).split("\n")
        const line = lines.find((one) => one.startsWith(`  ${name}: `)) ?? ""
        assert.match(line, /: (contains a line break|has quotes)/)
        assert.notInclude(line, "second")
      }
    }))
})

it.effect("items of a list may be on lines of their own", () =>
  Effect.gen(function*() {
    const { internalTokens } = yield* load({ INTERNAL_TOKENS: `${secret},\n  other\n` })
    assert.deepStrictEqual(internalTokens.map(Redacted.value), [secret, "other"])
  }))

it.effect("a token with a character that no header carries is refused", () =>
  Effect.gen(function*() {
    const names = [
      "CORE_TOKEN",
      "INTERNAL_TOKENS",
      "CORE_EVENT_TOKENS",
      "OPERATOR_READ_TOKENS",
      "TOKEN_URL_TOKEN",
      "OPENAI_API_KEY"
    ]
    const message = yield* messageOf(Object.fromEntries(names.map((name) => [name, "\u201Csecret\u201D"])))
    for (const name of names) assert.include(message, `${name}: has a character that no HTTP header can carry`)
  }))

describe("the variables that Kubernetes sets for Services", () => {
  const links = all.map(({ name }) => name).filter((name) => name.endsWith("_PORT"))

  it("are those of all settings for ports but PORT", () => assert.sameMembers(links, ["INTERNAL_PORT", "CLUSTER_PORT"]))

  it.effect("are ignored while the feature is off", () =>
    Effect.gen(function*() {
      const config = yield* load({
        CLUSTER_PORT: "tcp://10.96.0.1:34431",
        CLUSTER_SERVICE_HOST: "10.96.0.1",
        CLUSTER_PORT_34431_TCP_ADDR: "10.96.0.1",
        INTERNAL_PORT: "tcp://10.96.0.2:80",
        INTERNALS_PORT: "tcp://10.96.0.3:80"
      })
      assert.deepStrictEqual([config.cluster, config.internalPort], [undefined, undefined])
      const [warning, ...others] = config.warnings
      assert.match(
        warning ?? "",
        /^INTERNAL_PORT is ignored\. Kubernetes .*Service internal: .*`enableServiceLinks: false`/
      )
      assert.isEmpty(others)
    }))

  it.effect("are named where the feature is on", () =>
    Effect.gen(function*() {
      const message = yield* messageOf({ CLUSTER: "on", CLUSTER_PORT: "tcp://10.96.0.1:34431" })
      assert.match(
        message,
        /CLUSTER_PORT: must be a number\. Kubernetes .*Service cluster: .*`enableServiceLinks: false`/
      )
      assert.match(yield* messageOf({ PORT: "udp://10.96.0.1:53" }), /PORT: must be a number\. Kubernetes/)
    }))
})

describe("addresses", () => {
  const production = {
    NODE_ENV: "production",
    DATABASE_URL: "postgres://db.internal/tasks",
    JWT_SECRET: "a secret of the tests, long enough for HS256",
    CORE_URL: "http://core.internal",
    INTERNAL_TOKENS: "an internal token of 32 characters or more",
    CORE_EVENT_TOKENS: "a token for the events of runs with 32 characters or more",
    ASSISTANT_BACKEND_URL: "http://assistants.internal",
    ENCRYPTION_KEY: "1ufm9JqSlCnW7a7VYjGQDPBlEOWLJ5wA8gZ0vqvSjeE="
  }
  const wildcards = ["0.0.0.0", "::", "[::]", "0", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"]

  it.effect.each(wildcards)(
    "HOST=%s needs PUBLIC_URL: a warning, and in production an error",
    (HOST) =>
      Effect.gen(function*() {
        const { publicUrl, warnings } = yield* load({ HOST })
        assert.match(publicUrl, /^http:\/\/(127\.0\.0\.1|\[::1\]):3000$/)
        assert.match(warnings.join("\n"), /^PUBLIC_URL is not set, and HOST is .*set PUBLIC_URL to the URL/)
        assert.include(yield* messageOf({ ...production, HOST }), "not set, and NODE_ENV is production: PUBLIC_URL")
        const given = yield* load({ ...production, HOST, PUBLIC_URL: "https://tasks.example/base/" })
        assert.deepStrictEqual([given.internalUrl, given.warnings], ["https://tasks.example/base", []])
      })
  )

  it.effect("a PUBLIC_URL that nobody else reaches is named", () =>
    Effect.gen(function*() {
      const PUBLIC_URL = "http://0.0.0.0:3000"
      assert.match((yield* load({ PUBLIC_URL })).warnings.join("\n"), /^PUBLIC_URL is http:\/\/0\.0\.0\.0:3000/)
      assert.include(
        yield* messageOf({ ...production, PUBLIC_URL }),
        "PUBLIC_URL: must be the URL by which others reach"
      )
      for (const own of [{}, { PUBLIC_URL: "http://localhost:3000" }, { PUBLIC_URL: "http://[::1]:3000" }]) {
        const { warnings } = yield* load({ ...production, ...own })
        assert.match(warnings.join("\n"), /^the core at http:\/\/core\.internal would report to itself/)
      }
      assert.isEmpty((yield* load({ ...production, CORE_URL: "http://127.0.0.1:4000" })).warnings)
      assert.match(
        (yield* load({ ...production, HOST: "3f2a9c0d" })).warnings.join("\n"),
        /a name that others may not know/
      )
    }))

  it.effect("PUBLIC_URL and other base URLs have neither query nor fragment, and HOST neither scheme nor port", () =>
    Effect.gen(function*() {
      for (const name of ["PUBLIC_URL", "CORE_URL", "ASSISTANT_BACKEND_URL", "OPENAI_BASE_URL"]) {
        assert.include(yield* messageOf({ [name]: "http://a.example/?b=1" }), `${name}: must have no query`)
        assert.include(yield* messageOf({ [name]: "http://a.example/#b" }), `${name}: must have no query`)
      }
      assert.include(yield* messageOf({ PUBLIC_URL: "http://u:p@a.example" }), "PUBLIC_URL: must have no user")
      for (
        const HOST of [
          "http://127.0.0.1",
          "127.0.0.1:3000",
          "a b",
          "256.0.0.1",
          "1.2.3.4.5",
          "fe80::1%eth0",
          "a\\b",
          "a%"
        ]
      ) {
        assert.include(yield* messageOf({ HOST }), "HOST: must be an address or a name")
        assert.include(yield* messageOf({ CLUSTER_HOST: HOST }), "CLUSTER_HOST: must be an address or a name")
      }
      assert.strictEqual((yield* load({ HOST: "[::1]" })).host, "::1")
    }))

  it.effect("of other systems are shown without user, password and query", () =>
    Effect.gen(function*() {
      const { warnings } = yield* load({ ...production, CORE_URL: "http://user:pa55@core.internal/base/" })
      assert.match(warnings.join("\n"), /^the core at http:\/\/core\.internal\/base would report to itself/)
      const message = yield* messageOf({ ...production, PUBLIC_URL: "http://user:pa55@0.0.0.0" })
      assert.include(message, "PUBLIC_URL: must be the URL by which others reach the service, not http://0.0.0.0")
      assert.notInclude(warnings.join("\n") + message, "pa55")
      assert.strictEqual(Addresses.shown("https://u:p@keys.example:8443/a/b?key=c#d"), "https://keys.example:8443/a/b")
    }))

  it.effect("CLUSTER_PORT leaves room for the ports of all workers, which are no others", () =>
    Effect.gen(function*() {
      const clustered = { CLUSTER: "on", WORKERS: "4" }
      assert.include(
        yield* messageOf({ ...clustered, CLUSTER_PORT: "65530" }),
        "CLUSTER_PORT: must leave room for 4 workers"
      )
      assert.include(
        yield* messageOf({ ...clustered, CLUSTER_PORT: "3000", PORT: "3007" }),
        "CLUSTER_PORT: must have ports of its own"
      )
      assert.deepInclude((yield* load({ ...clustered, CLUSTER_PORT: "65528" })).cluster, { port: 65_528 })
      assert.deepInclude((yield* load({ CLUSTER: "on", CLUSTER_PORT: "65535" })).cluster, { port: 65_535 })
    }))

  it.effect("CLUSTER_HOST is one address", () =>
    Effect.gen(function*() {
      const message = yield* messageOf({ CLUSTER: "on", CLUSTER_HOST: "0.0.0.0" })
      assert.include(message, "CLUSTER_HOST: must be the address at which the other nodes reach this one")
      assert.strictEqual((yield* load({ CLUSTER_HOST: "0.0.0.0" })).cluster, undefined)
    }))
})
