import { OpenApi } from "effect/http-api"
import { assert, describe, it } from "vitest"
import { Api } from "../../../src/http/contract/Api.ts"
import { prometheusName } from "../../../src/services/telemetry/Metrics.ts"

const { paths } = OpenApi.fromApi(Api)
const operations = Object.values(paths).flatMap(({ get, post }) => [get, post]).filter((found) => found !== undefined)

describe("the OpenAPI document", () => {
  it("describes each success response by what it means for its operation", () => {
    const descriptions = operations.flatMap(({ responses }) =>
      Object.entries(responses).filter(([status]) => status.startsWith("2")).map(([, { description }]) => description)
    )
    for (const description of descriptions) assert.match(description, /^[A-Z].{20,}\.$/s)
    assert.strictEqual(new Set(descriptions).size, descriptions.length)
  })

  it("has a current metric in the example of the metrics", () => {
    const metrics = operations.find(({ operationId }) => operationId === "operations.metrics")
    assert.include(JSON.stringify(metrics), prometheusName("task.active"))
  })
})
