import { assert, describe, it } from "vitest"
import { isServed } from "../../src/http/Audience.ts"

const routes = {
  "/healthz": ["all", "public", "internal", "worker"],
  "/api/tasks": ["all", "public"],
  "/rpc": ["all", "internal"],
  "/internal/core/events": ["all", "internal"],
  "/internal/operator/tasks": ["all", "internal"],
  "/internal/live/texts": ["all", "internal", "worker"],
  "/internal/metrics": ["all", "internal", "worker"]
} as const

describe("the routes of a listener", () => {
  for (const [route, expected] of Object.entries(routes)) {
    it(`${route} is served by ${expected.join(", ")}`, () => {
      const audiences = ["all", "public", "internal", "worker"] as const
      assert.sameOrderedMembers(audiences.filter((audience) => isServed([], audience, route)), [...expected])
    })
  }

  it("extensions add routes to both listeners, not to that of workers", () => {
    const extensions = [{ routes: [], ofBothListeners: ["/console"] }]
    const served = (["all", "public", "internal", "worker"] as const).filter((audience) =>
      isServed(extensions, audience, "/console/ops")
    )
    assert.deepStrictEqual(served, ["all", "public", "internal"])
  })
})
