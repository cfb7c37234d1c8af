/**
 * V8 frees what a request leaves behind with the young generation. Objects that grow old instead make V8 collect the old generation more
 * often, which took a tenth of a task's CPU.
 */
import * as path from "node:path"
import type { Readable } from "node:stream"
import { assert, it } from "vitest"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const watch = path.join(import.meta.dirname, "../kit/youngDeaths.ts")
/** V8 may come to allocate what often survived in the old generation at once, which says nothing of what is kept. */
const options = ["--no-allocation-site-pretenuring", "--import", watch]
const { service } = await use(startSystem({ MAX_ACTIVE_TASKS: "100000" }, [...options, "src/runtime/Main.ts"]))

let fates = ""
;(service.process.stdio[3] as Readable).setEncoding("utf8").on("data", (text: string) => fates += text)

it("frees requests that have ended with the young generation", async () => {
  const token = await mint("garbage")
  const created = async () => {
    while (fates.length < 300) assert.strictEqual((await service.create(token, "x")).status, 201)
  }
  await Promise.all(Array.from({ length: 4 }, created))
  const ended = await eventually(async () => fates, ({ length }) => length >= 300)
  const alive = ended.split("").filter((fate) => fate === "1").length
  assert.isBelow(alive / ended.length, 0.1)
}, 60_000)
