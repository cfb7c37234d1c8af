import { assert, it } from "vitest"
import { nodeProblem } from "../../src/runtime/Version.ts"

it("Node below the minimum of package.json is refused", () => {
  assert.strictEqual(nodeProblem("20.20.2"), "Node 20.20.2 is too old: 22.19 or later is required")
  assert.isString(nodeProblem("22.9.0"))
  for (const node of ["22.19.0", "22.20.1", "26.10.0", process.versions.node]) assert.isUndefined(nodeProblem(node))
})
