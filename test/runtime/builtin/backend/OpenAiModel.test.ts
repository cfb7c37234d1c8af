import { assert, it } from "@effect/vitest"
import { withOptions } from "../../../../src/runtime/builtin/backend/OpenAiModel.ts"

const endpoint = { baseUrl: "x", apiKey: undefined, model: "m", parameters: { temperature: 0, max_tokens: 9 } }

it("sends options of a run in place of the endpoint's own parameters", () => {
  const schema = { type: "object" }
  const response_format = { type: "json_schema", name: "n", schema, strict: true }
  assert.deepStrictEqual(withOptions(endpoint, { max_output_tokens: 5, response_format }).parameters, {
    temperature: 0,
    max_completion_tokens: 5,
    response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } }
  })
  assert.deepStrictEqual(withOptions(endpoint, { response_format: { type: "json_object" } }).parameters, {
    ...endpoint.parameters,
    response_format: { type: "json_object" }
  })
  assert.strictEqual(withOptions(endpoint, undefined), endpoint)
})
