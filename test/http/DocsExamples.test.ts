/** The examples of the documentation call methods that the clients have. */
import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import * as DocsExamples from "../../src/http/DocsExamples.ts"

const document = JSON.parse(fs.readFileSync(new URL("../golden/files/openapi.json", import.meta.url), "utf8"))
const calls: ReadonlyArray<DocsExamples.DocumentedCall> = Object.entries<any>(document.paths).flatMap(([path, item]) =>
  Object.values<any>(item).filter(({ operationId }) => operationId !== undefined).map((node) => ({
    path,
    operationId: node.operationId,
    tag: node.tags[0],
    body: node.requestBody?.content?.["application/json"]?.examples?.example?.value,
    isUpload: node.requestBody?.content?.["multipart/form-data"] !== undefined
  }))
)

const root = new URL("../../", import.meta.url)
const python = "src/http/client/python/async_task_service_client"
const textOf = (file: string) => {
  const url = new URL(file, root)
  return fs.existsSync(url) ? fs.readFileSync(url, "utf8") : ""
}

describe("each operation of the document", () => {
  const client = new TaskServiceClient({ baseUrl: "http://127.0.0.1:3000", token: "x" })

  it.each(calls)("$operationId", (call) => {
    const method = DocsExamples.methodOf(call)
    const shown = `the documentation of ${call.operationId} shows client.${call.tag}`
    assert.isFunction(
      Reflect.get(Reflect.get(client, call.tag) ?? {}, method),
      `${shown}.${method}(): write it, in a resource with the name ${call.tag} in src/http/client/promise/resources.ts`
    )
    const [, name = ""] = new RegExp(`client\\.${call.tag}\\.(\\w+)\\(`).exec(DocsExamples.python(call)) ?? []
    const file = `${python}/${call.tag}.py`
    assert.include(textOf(file), `def ${name}(`, `${shown}.${name}(): write it in ${file}, which client.py imports`)
  })

  it("has the values of its example in each language", () => {
    const call = calls.find(({ operationId }) => operationId === "rerunTask")!
    assert.include(DocsExamples.typescript(call), "client.tasks.rerun(uuid, {")
    assert.include(DocsExamples.typescript(call), "callback_url: null")
    assert.include(DocsExamples.python(call), "\"callback_url\": None")
    const cancel = calls.find(({ operationId }) => operationId === "cancelTask")!
    assert.include(DocsExamples.python(cancel), "client.tasks.cancel(uuid, reason=\"The user closed the window.\")")
  })
})
