import { assert, describe, it } from "@effect/vitest"
import { Redacted, Result } from "effect"
import * as Assistants from "../../../../src/runtime/builtin/backend/Assistants.ts"
import * as AssistantsFile from "../../../../src/runtime/builtin/backend/AssistantsFile.ts"

const parse = (text: string, environment = {}) => AssistantsFile.parse(text, "a.yaml", environment)

const problems = (text: string, environment = {}) =>
  Result.match(parse(text, environment), {
    onSuccess: () => [],
    onFailure: ({ message }) => message.split("\n")
  })

const whole = `
assistants:
  - id: 1
    name: One
    llm_models:
      - { id: 5, base_url: "http://a/v1/", model: small }
      - { id: 6, base_url: "http://b/v1", model: large, api_key_env: KEY, parameters: { temperature: 0 } }
`

describe("the file of assistants", () => {
  it("is YAML or JSON", () => {
    const assistants = Result.getOrThrow(parse(whole, { KEY: "k" }))
    const json = JSON.stringify({
      assistants: [{ id: 2, name: "Two", llm_models: [{ id: 1, base_url: "http://a", model: "m" }] }]
    })
    assert.strictEqual(Result.getOrThrow(parse(json)).get(2)?.name, "Two")
    const one = assistants.get(1)!
    assert.deepInclude(one, { instructions: "", maxRounds: 24 })
    assert.deepStrictEqual(Assistants.pick(one.models, 6), {
      baseUrl: "http://b/v1",
      apiKey: Redacted.make("k"),
      model: "large",
      parameters: { temperature: 0 }
    })
    for (const id of [5, 7, 0]) assert.strictEqual(Assistants.pick(one.models, id)?.baseUrl, "http://a/v1")
    assert.isUndefined(Assistants.pick(one.imageGenerators, 1))
  })

  it("reports every error with its line number", () => {
    assert.deepStrictEqual(problems(whole), ["a.yaml:7: assistants.0.llm_models.1.api_key_env: KEY is not set"])
    assert.deepStrictEqual(
      problems(`assistants:
  - id: 0
    name: One
    color: red
    llm_models:
      - id: 1
        base_url: ftp://x
        model: m
      - { id: 1, base_url: "http://x", model: "" }
`).map((line) => line.replace(/(assistants\S*:) .*/, "$1")).toSorted(),
      [
        "a.yaml:2: assistants.0.id:",
        "a.yaml:4: assistants.0.color:",
        "a.yaml:7: assistants.0.llm_models.0.base_url:",
        "a.yaml:9: assistants.0.llm_models.1.model:"
      ]
    )
    assert.match(
      problems(whole + whole.replace("\nassistants:\n", "").replaceAll("KEY", "PATH"), {
        KEY: "k",
        PATH: "p"
      }).join("\n"),
      /^a\.yaml:8: assistants\.1\.id: The id 1 is used more than once$/
    )
    assert.match(problems("assistants:\n  - id: [\n").join("\n"), /^a\.yaml:\d: /)
    assert.match(problems("").join("\n"), /^a\.yaml:1: /)
    assert.match(problems("{}").join("\n"), /^a\.yaml:1: .*assistants/)
  })

  it("rejects YAML aliases that expand exponentially", () => {
    const bomb = [
      "a: &a [1,1,1,1,1,1,1,1,1]",
      ..."bcdefgh".split("").map((name, index) => {
        const last = "abcdefgh"[index]
        return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${last}`).join(",")}]`
      })
    ].join("\n")
    assert.isNotEmpty(problems(bomb))
  })
})
