/** The examples of errors in both documents are about their own operation. */
import * as fs from "node:fs"
import { assert, it } from "vitest"
import { errorCodes } from "../../../src/http/contract/ErrorCodes.ts"
import { extensions } from "../../../src/runtime/loadedExtensions.ts"

const known: ReadonlyMap<string, number> = new Map(
  [errorCodes, ...extensions.map(({ routes }) => routes?.errorCodes ?? {})].flatMap((codes) =>
    Object.entries(codes).map(([code, [status]]) => [code, status])
  )
)

it.each(["openapi.json", "openapi.internal.json"])("%s has the code of the case in each example", (name) => {
  const file = new URL(`../../golden/files/${name}`, import.meta.url)
  const { paths } = JSON.parse(fs.readFileSync(file, "utf8"))
  // oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
  for (const [path, methods] of Object.entries<Record<string, any>>(paths)) {
    if (!path.startsWith("/api/") && !path.startsWith("/internal/")) continue
    for (const [method, { responses }] of Object.entries(methods)) {
      for (const [status, { content = {}, description }] of Object.entries<Record<string, any>>(responses)) {
        const example = content["application/json"]?.examples.example.value
        if (!["403", "404", "409", "429"].includes(status) || example === undefined) continue
        const { code } = example
        const at = `${method} ${path} ${status} ${code}: ${description}`
        assert.strictEqual(known.get(code), Number(status), at)
        const isOfTask = path.includes("{uuid}") || path.endsWith("/core/events")
        if (/^(task_|run_|request_)/.test(code)) assert.isTrue(isOfTask, at)
        if (code === "too_many_active_tasks") assert.match(`${method} ${path}`, /^post .*(tasks|rerun|trigger)$/)
        if (code.startsWith("delivery_")) assert.include(path, "redeliver", at)
        if (code.startsWith("endpoint_")) assert.include(path, "webhook-endpoints", at)
      }
    }
  }
})
