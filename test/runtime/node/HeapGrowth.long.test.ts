import { execFileSync } from "node:child_process"
import { assert, it } from "vitest"

/** Replaces objects that have grown old, and prints the most MiB that the heap had meanwhile. */
const program = (limit: string) => `
  import { limit } from "./src/runtime/node/HeapGrowth.ts"
  ${limit}
  const kept = []
  let most = 0
  for (let n = 0; n < 6_000_000; n++) {
    kept[n % 300_000] = { n, text: [n] }
    if (n % 10_000 === 0) most = Math.max(most, process.memoryUsage().heapTotal)
  }
  console.log(Math.round(most / 1048576))
`

/** With a single thread, the moment of a collection does not depend on what else the machine does. */
const options = ["--single-threaded", "--max-semi-space-size=16", "--input-type=module", "-e"]

const mostMiB = (limit: string) =>
  Number(execFileSync(process.execPath, [...options, program(limit)], { encoding: "utf8" }))

it("old objects are collected before the heap has twice the size", () => {
  assert.isBelow(mostMiB("limit()"), 0.65 * mostMiB(""))
})
