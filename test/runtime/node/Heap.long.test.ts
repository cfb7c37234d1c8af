import { execFileSync } from "node:child_process"
import { assert, it } from "vitest"

const setUp = `
  import { configure } from "./src/runtime/node/Heap.ts"
  configure()
`

/** With a single thread, the moment of a collection does not depend on what else the machine does. */
const run = (program: string, ...flags: ReadonlyArray<string>) =>
  execFileSync(
    process.execPath,
    ["--single-threaded", "--max-semi-space-size=16", ...flags, "--input-type=module", "-e", program],
    { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 }
  )

/** Replaces objects that have grown old, and prints the most MiB that the heap had meanwhile. */
const replacing = `
  const kept = []
  let most = 0
  for (let n = 0; n < 6_000_000; n++) {
    kept[n % 300_000] = { n, text: [n] }
    if (n % 10_000 === 0) most = Math.max(most, process.memoryUsage().heapTotal)
  }
  console.log(Math.round(most / 1048576))
`

it("old objects are collected before the heap has twice the size", () => {
  assert.isBelow(Number(run(setUp + replacing)), 0.65 * Number(run(replacing)))
})

/** All of what the function makes survives for a while. */
const keeping = `
  const make = (n) => ({ n, parts: [n, n + 1], more: { n } })
  let kept = []
  for (let n = 0; n < 4_000_000; n++) {
    kept.push(make(n))
    if (kept.length === 1_500_000) kept = []
  }
`

it("no object is made old immediately because others of its kind lived long", () => {
  const learned = /=> (maybe )?tenure/
  assert.match(run(keeping, "--trace-pretenuring-statistics"), learned)
  assert.notMatch(run(setUp + keeping, "--trace-pretenuring-statistics"), learned)
})
