import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { assert, it } from "vitest"
import { nodeProblem } from "../../src/runtime/Version.ts"

it("Node below the minimum of package.json is refused", () => {
  assert.strictEqual(nodeProblem("20.20.2"), "Node 20.20.2 is too old: 22.19 or later is required")
  assert.isString(nodeProblem("22.9.0"))
  for (const node of ["22.19.0", "22.20.1", "26.10.0", process.versions.node]) assert.isUndefined(nodeProblem(node))
})

it("npm start reports a Node that cannot run TypeScript", () => {
  const root = new URL("../../", import.meta.url)
  const { scripts } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"))
  const args = ["--no-strip-types", ...String(scripts.start).split(" node ").slice(1).join().split(" ")]
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" })
  assert.strictEqual(stderr, `Node ${process.versions.node} is too old: 22.19 or later is required\n`)
  assert.strictEqual(status, 1)
})
