import { assert, it } from "@effect/vitest"
import { settings } from "../../../src/http/facades/Settings.ts"
import { type Environment, values } from "../../../src/services/settings/Setting.ts"

const read = (environment: Environment) => {
  const problems: Array<string> = []
  return { settings: values(settings, environment, (name) => problems.push(name)), problems }
}

const absent = {
  served: new Set(["openai", "mcp", "a2a"]),
  models: new Map(),
  isLenient: false,
  onlyAppends: false,
  timeLimit: 3600
}

it.each(
  [
    ["FACADES", "off", { served: new Set<string>() }, "openai,everything"],
    [
      "FACADE_MODELS",
      "gpt-5=1, analyst=20:2:3",
      {
        models: new Map([
          ["gpt-5", { assistantId: 1, llmModelId: null, imageGeneratorId: null }],
          ["analyst", { assistantId: 20, llmModelId: 2, imageGeneratorId: 3 }]
        ])
      },
      "gpt-5"
    ],
    ["FACADE_LENIENT", "true", { isLenient: true }, "maybe"],
    ["FACADE_LIVE_TEXT", "true", { onlyAppends: true }, "maybe"],
    ["FACADE_TIME_LIMIT", "2 minutes", { timeLimit: 120 }, "2 days"]
  ] as const
)("%s", (name, text, value, invalid) => {
  assert.deepStrictEqual(read({}), { settings: absent, problems: [] })
  assert.deepStrictEqual(read({ [name]: text }), { settings: { ...absent, ...value }, problems: [] })
  assert.deepStrictEqual(read({ [name]: invalid }).problems, [name])
})

it("is off in production, unless it is asked for", () => {
  assert.deepStrictEqual(read({ NODE_ENV: "production" }).settings.served, new Set<string>())
  assert.deepStrictEqual(read({ NODE_ENV: "production", FACADES: "openai" }).settings.served, new Set(["openai"]))
})
