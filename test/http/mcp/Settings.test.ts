import { assert, it } from "@effect/vitest"
import { settings } from "../../../src/http/mcp/Settings.ts"
import { type Environment, values } from "../../../src/services/settings/Setting.ts"

const read = (environment: Environment) => {
  const problems: Array<string> = []
  return { ...values(settings, environment, (name) => problems.push(name)), problems }
}

it("requires the audience in production while the façade is on", () => {
  const production = { NODE_ENV: "production" }
  const given = { audience: "a", problems: [] }
  const absent = { audience: undefined, problems: [] }
  assert.deepStrictEqual(read({}), absent)
  assert.deepStrictEqual(read({ MCP_AUDIENCE: "a" }), given)
  assert.deepStrictEqual(read(production), absent)
  assert.deepStrictEqual(read({ ...production, FACADES: "openai" }), absent)
  assert.deepStrictEqual(read({ ...production, FACADES: "mcp", MCP_AUDIENCE: "a" }), given)
  assert.deepStrictEqual(read({ ...production, FACADES: "openai,mcp" }).problems, ["MCP_AUDIENCE"])
})
