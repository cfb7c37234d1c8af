import { assert, it } from "@effect/vitest"
import { Duration, Redacted } from "effect"
import { settings } from "../../../../src/runtime/extensions/operator/server.ts"
import { type Environment, values } from "../../../../src/services/settings/Setting.ts"

const read = (environment: Environment) => {
  const problems: Array<string> = []
  const { readTokens, ...found } = values(settings, environment, (name) => problems.push(name))
  return { settings: { ...found, tokens: readTokens.map(Redacted.value).join() }, problems }
}

const absent = {
  secureCookie: undefined,
  storedBytes: undefined,
  session: Duration.hours(8),
  showsContent: true,
  readTokenNames: [],
  auditRetention: Duration.days(400),
  tokens: ""
}

it.each(
  [
    ["OPERATOR_READ_TOKENS", "a, b", { tokens: "a,b" }, undefined],
    ["OPERATOR_READ_TOKEN_NAMES", "ana, ,bob", { readTokenNames: ["ana", "", "bob"] }, "a:b"],
    ["AUDIT_RETENTION", "30 days", { auditRetention: Duration.days(30) }, "1 hour"],
    ["OPERATOR_CONTENT", "off", { showsContent: false }, "perhaps"],
    ["OPERATOR_SESSION", "1 hour", { session: Duration.hours(1) }, "1 second"],
    ["STORED_BYTES", "1048576", { storedBytes: 1_048_576 }, "0"],
    ["OPERATOR_SECURE_COOKIE", "off", { secureCookie: false }, "perhaps"]
  ] as const
)("%s", (name, text, value, invalid) => {
  assert.deepStrictEqual(read({}), { settings: absent, problems: [] })
  assert.deepStrictEqual(read({ [name]: text }), { settings: { ...absent, ...value }, problems: [] })
  if (invalid !== undefined) assert.deepStrictEqual(read({ [name]: invalid }).problems, [name])
})

it("operators see no content on a database of the operator's own, unless it is asked for", () => {
  const DATABASE_URL = "postgres://db/a"
  assert.isFalse(read({ DATABASE_URL }).settings.showsContent)
  assert.isTrue(read({ DATABASE_URL, OPERATOR_CONTENT: "on" }).settings.showsContent)
})
