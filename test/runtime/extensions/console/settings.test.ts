import { assert, it } from "@effect/vitest"
import { settings } from "../../../../src/runtime/extensions/console/Console.ts"
import { type Environment, values } from "../../../../src/services/settings/Setting.ts"

const read = (environment: Environment) => {
  const problems: Array<string> = []
  return { ...values(settings, environment, (name) => problems.push(name)), problems }
}

it("CONSOLE", () => {
  assert.deepStrictEqual(read({}), { audiences: ["users", "operators"], imageOrigins: [], problems: [] })
  assert.deepStrictEqual(read({ CONSOLE: "operators, users" }).audiences, ["users", "operators"])
  assert.deepStrictEqual(read({ CONSOLE: "off" }), { audiences: [], imageOrigins: [], problems: [] })
  assert.deepStrictEqual(read({ NODE_ENV: "production" }), { audiences: [], imageOrigins: [], problems: [] })
  assert.deepStrictEqual(read({ CONSOLE: "users,everyone" }).problems, ["CONSOLE"])
})

it("IMAGE_ORIGINS", () => {
  const origins = "https://cdn.example, https://images.example:8443/,https://cdn.example"
  assert.deepStrictEqual(read({ IMAGE_ORIGINS: origins }).imageOrigins, [
    "https://cdn.example",
    "https://images.example:8443"
  ])
  for (
    const wrong of [
      "http://cdn.example",
      "https://*.example",
      "https://*",
      "*",
      "https:",
      "cdn.example",
      "https://cdn.example/path",
      "https://cdn.example/?a",
      "https://user@cdn.example",
      "data:",
      "https://cdn.example; script-src *",
      "'self'"
    ]
  ) {
    assert.deepStrictEqual(read({ IMAGE_ORIGINS: wrong }).problems, ["IMAGE_ORIGINS"], wrong)
  }
})
