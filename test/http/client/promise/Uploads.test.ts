/** The progress of uploads, which counts the same bytes in Node and in browsers. */
import { afterEach, assert, beforeEach, describe, it, vi } from "vitest"
import { TaskServiceClient } from "../../../../src/http/client/promise/TaskServiceClient.ts"
import { answerJson as answer } from "../../../kit/LoopbackServer.ts"
import { ScriptedService } from "../../../kit/ScriptedService.ts"

let service: ScriptedService
beforeEach(async () => {
  service = await new ScriptedService().listen()
  service.script = (_, response) => answer(response, 201, { type: "file", file: { id: "1" } })
})
afterEach(async () => {
  vi.unstubAllGlobals()
  await service.close()
})

const size = 300_000
const upload = async (content: Uint8Array | ArrayBuffer | Blob) => {
  const seen: Array<{ readonly loaded: number; readonly total: number | null }> = []
  const { files } = new TaskServiceClient({ baseUrl: service.url, token: "t" })
  await files.upload(content, { name: "a.txt", onProgress: (progress) => seen.push(progress) })
  return seen
}

describe("in Node", () => {
  const bytes = new Uint8Array(size).fill(97)
  for (
    const [kind, content] of [["bytes", bytes], ["a buffer", bytes.buffer], ["a blob", new Blob([bytes])]] as const
  ) {
    it(`is reported in pieces for ${kind}`, async () => {
      const seen = await upload(content)
      assert.isAbove(seen.length, 3)
      assert.deepStrictEqual(seen.at(-1), { loaded: size, total: size })
      assert.isTrue(seen.every(({ loaded }, index) => index === 0 || loaded > seen[index - 1]!.loaded))
      assert.include(service.received[0]?.body, "a".repeat(size))
    })
  }
})

describe("in a browser, whose own progress counts the form", () => {
  /** The parts of the class of browsers that an upload uses: it sends the form, and says how much of it has gone. */
  class FormRequest {
    readonly upload: { onprogress?: (event: object) => void } = {}
    readonly #headers: Record<string, string> = {}
    #url = ""
    status = 0
    responseText = ""
    onload?: () => void
    onloadend?: () => void
    open(_: string, url: string) {
      this.#url = url
    }
    setRequestHeader(name: string, value: string) {
      this.#headers[name] = value
    }
    getResponseHeader() {
      return null
    }
    async send(form: FormData) {
      const request = new Request(this.#url, { method: "POST", headers: this.#headers, body: form })
      const total = (await request.clone().arrayBuffer()).byteLength
      for (const loaded of [100, total / 2, total - 10, total]) {
        this.upload.onprogress?.({ lengthComputable: true, loaded, total })
      }
      const response = await fetch(request)
      this.status = response.status
      this.responseText = await response.text()
      this.onload?.()
      this.onloadend?.()
    }
  }

  it("counts the content", async () => {
    vi.stubGlobal("XMLHttpRequest", FormRequest)
    const seen = await upload(new Blob([new Uint8Array(size)]))
    assert.deepStrictEqual(seen.map(({ total }) => total), [size, size, size, size])
    assert.deepStrictEqual(seen.map(({ loaded }) => loaded >= 0 && loaded <= size), [true, true, true, true])
    assert.deepStrictEqual([seen[0]?.loaded, seen[3]?.loaded], [0, size])
  })
})
