import { assert, it } from "@effect/vitest"
import { settings } from "../../../../src/runtime/extensions/console/Console.ts"
import { type Environment, values } from "../../../../src/services/settings/Setting.ts"

const read = (environment: Environment) => {
  const problems: Array<string> = []
  return { ...values(settings, environment, (name) => problems.push(name)), problems }
}

it("CONSOLE", () => {
  assert.deepStrictEqual(read({}), { audiences: ["users", "operators"], problems: [] })
  assert.deepStrictEqual(read({ CONSOLE: "operators, users" }).audiences, ["users", "operators"])
  assert.deepStrictEqual(read({ CONSOLE: "off" }), { audiences: [], problems: [] })
  assert.deepStrictEqual(read({ NODE_ENV: "production" }), { audiences: [], problems: [] })
  assert.deepStrictEqual(read({ CONSOLE: "users,everyone" }).problems, ["CONSOLE"])
})
