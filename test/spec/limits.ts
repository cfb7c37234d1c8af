/** Limits: the last value that is accepted and the first that is not; and the list's parameters. */
import { assert, describe, it } from "vitest"
import { use } from "../kit/suite.ts"
import { type Door, Gateway } from "./Gateway.ts"
import { hold } from "./transitions.ts"

const text = { type: "text", text: "x" }
const said = { role: "user", content: "x" }
const copies = (count: number, item: object) => Array.from({ length: count }, () => item)
const url = (length: number) => `https://client.example/${"x".repeat(length - "https://client.example/".length)}`
const tools = (count: number) => Array.from({ length: count }, (_, n) => ({ type: "function", name: `tool_${n}` }))
const tool = (name: string) => [{ type: "function", name }]

/** Of a field of `POST /api/tasks`: what is accepted, what is 422. */
const fields: ReadonlyArray<readonly [string, ReadonlyArray<unknown>, ReadonlyArray<unknown>]> = [
  ["assistant_id", [1, 9_007_199_254_740_991], [0, -1, 1.5, 9_007_199_254_740_992, true]],
  ["llm_model_id", [0, -7, 9_007_199_254_740_991, null], [9_007_199_254_740_992, 0.5]],
  ["image_generator_id", [0, -7, null], [0.5, "1"]],
  ["max_execution_time", [1, 86_400, null], [0, -1, 86_401, 1.5]],
  ["priority", [0, 5, null], [-1, 6, 9, 2.5, "5"]],
  ["callback_url", [url(2048), "http://client.example", null], [url(2049), "ftp://client.example/", "/hook", ""]],
  ["callback_secret", ["s".repeat(255), null], ["s".repeat(256)]],
  ["input", [copies(10_000, text)], [[], copies(10_001, text)]],
  ["turns", [[], copies(10_000, said), null], [
    copies(10_001, said)
  ]],
  ["client_tools", [[], tools(128), tool("A-z_9".padEnd(64, "x")), null], [
    tools(129),
    tool("a.b"),
    tool(""),
    tool("x".repeat(65)),
    [...tool("twice"), ...tool("twice")]
  ]]
]

const formats = {
  png: "image/png",
  jpg: "image/jpeg",
  webp: "image/webp",
  gif: "image/gif",
  txt: "text/plain",
  pdf: "application/pdf",
  json: "application/json",
  js: "text/javascript",
  css: "text/css",
  html: "text/html",
  csv: "text/csv",
  xml: "application/xml",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  xls: "application/vnd.ms-excel",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  ogg: "audio/ogg",
  m4a: "audio/mp4",
  webm: "video/webm",
  mp4: "video/mp4",
  mkv: "video/x-matroska"
}

const ofRequests = (gateway: Gateway) => {
  for (const [field, accepted, refused] of fields) {
    it(`${field} of a create`, async () => {
      for (const value of accepted) {
        const token = await gateway.user()
        const { body, status } = await gateway.create(token, { [field]: value })
        assert.strictEqual(status, 201, `${JSON.stringify(value)?.slice(0, 80)}: ${JSON.stringify(body)}`)
      }
      for (const value of refused) {
        const { body, status } = await gateway.create(await gateway.user(), { [field]: value })
        assert.strictEqual(status, 422, JSON.stringify(value)?.slice(0, 80))
        for (const name of Object.keys(body.errors)) assert.match(name, new RegExp(`^${field}(\\.|$)`))
      }
    })
  }

  it("max_execution_time is 86400 unless the request says less", async () => {
    for (const [given, expected] of [[undefined, 86_400], [null, 86_400], [1, 1], [600, 600]] as const) {
      const more = given === undefined ? {} : { max_execution_time: given }
      assert.strictEqual((await gateway.create(await gateway.user(), more)).body.max_execution_time, expected)
    }
  })

  it("the reason of a cancel has up to 1000 characters", async () => {
    const { token, uuid } = await hold(gateway, "interrupted")
    const cancel = (reason: string | null) => gateway.call("POST", `/api/tasks/${uuid}/cancel`, token, { reason })
    assert.deepStrictEqual(Object.keys((await cancel("r".repeat(1001))).body.errors), ["reason"])
    assert.strictEqual((await cancel("r".repeat(1000))).status, 200)
    assert.strictEqual((await gateway.get(token, uuid)).body.error, "r".repeat(1000))
    const unexplained = await hold(gateway, "interrupted")
    const path = `/api/tasks/${unexplained.uuid}/cancel`
    assert.strictEqual((await gateway.call("POST", path, unexplained.token, { reason: null })).status, 200)
    assert.isNull((await gateway.get(unexplained.token, unexplained.uuid)).body.error)
  })

  it("files have one of the 22 formats", async () => {
    const token = await gateway.user()
    for (const [format, type] of Object.entries(formats)) {
      const { body, status } = await gateway.upload(token, `a.${format}`, type)
      assert.strictEqual(status, 201, `${format}: ${JSON.stringify(body)}`)
      assert.hasAllKeys(body.file, ["id", "name", "mime_type", "provider_data"])
      assert.deepStrictEqual(
        [body.type, typeof body.file.id, body.file.name, typeof body.file.provider_data.path],
        ["file", "string", `a.${format}`, "string"]
      )
      // It can be placed into `input` as it is.
      assert.strictEqual((await gateway.create(await gateway.user(), { input: [body] })).status, 201)
    }
    for (const name of ["a.exe", "a.sh", "a.svg", "a.zip", "a.doc", "a", "png"]) {
      const { body, status } = await gateway.upload(token, name, "application/octet-stream")
      assert.deepStrictEqual([status, Object.keys(body.errors)], [422, ["file"]], name)
    }
    const empty = new FormData()
    empty.set("other", "x")
    const { body, status } = await gateway.call("POST", "/api/files", token, empty)
    assert.deepStrictEqual([status, Object.keys(body.errors)], [422, ["file"]])
  })
}

const ofActiveTasks = (gateway: Gateway) => {
  it("5 active tasks: pending, processing and interrupted count, ended ones do not", async () => {
    const token = await gateway.user()
    const created = await Promise.all(Array.from({ length: 40 }, () => gateway.create(token)))
    assert.deepStrictEqual(
      created.map(({ status }) => status).toSorted((one, other) => one - other),
      [...Array(5).fill(201), ...Array(35).fill(429)]
    )
    const uuids = created.flatMap(({ body, status }) => status === 201 ? [body.uuid as string] : [])
    const runs = await Promise.all(uuids.map((uuid) => gateway.service.run(uuid)))
    const turn = { output: [], messages: [], metadata: {} }
    const interrupted = { type: "interrupted", tool_calls: [{ id: "c1", name: "look", arguments: {} }] }
    await gateway.report(runs[0]!, { type: "processing" })
    await gateway.report(runs[1]!, interrupted)
    assert.strictEqual((await gateway.create(token)).status, 429)
    for (const event of [{ type: "completed", turn }, { type: "failed", code: "internal" }]) {
      await gateway.report(runs.pop()!, event)
      assert.strictEqual((await gateway.create(token)).status, 201)
      assert.strictEqual((await gateway.create(token)).status, 429)
    }
    assert.strictEqual((await gateway.call("POST", `/api/tasks/${uuids[1]}/cancel`, token)).status, 200)
    assert.strictEqual((await gateway.create(token)).status, 201)
    // Another user has slots of their own.
    assert.strictEqual((await gateway.create(await gateway.user())).status, 201)
  })
}

const ofLists = (gateway: Gateway) => {
  it("page and per_page: from 1; 1 to 100, 25 by default", async () => {
    const token = await gateway.user()
    const list = (query = "") => gateway.call("GET", `/api/tasks${query}`, token)
    const meta = async (query = "") => (await list(query)).body.meta
    assert.deepStrictEqual(await meta(), { current_page: 1, per_page: 25, last_page: 1, total: 0 })
    const uuids: Array<string> = []
    for (let count = 0; count < 3; count++) uuids.unshift((await gateway.create(token)).body.uuid)
    const page = async (query: string) => (await list(query)).body.data.map(({ uuid }: { uuid: string }) => uuid)
    assert.deepStrictEqual(await page("?per_page=2"), uuids.slice(0, 2))
    assert.deepStrictEqual(await page("?per_page=2&page=2"), uuids.slice(2))
    assert.deepStrictEqual(await page("?page=3"), [])
    assert.deepStrictEqual(await meta("?per_page=2&page=2"), { current_page: 2, per_page: 2, last_page: 2, total: 3 })
    for (const query of ["?per_page=1", "?per_page=100", "?page=1"]) assert.strictEqual((await list(query)).status, 200)
    const wrong = [
      "per_page=0",
      "per_page=101",
      "per_page=-1",
      "per_page=x",
      "per_page=",
      "page=0",
      "page=-1",
      "page=1.5"
    ]
    for (const query of wrong) {
      const { body, status } = await list(`?${query}`)
      assert.deepStrictEqual([status, Object.keys(body.errors ?? {})], [422, [query.split("=")[0]]], query)
    }
  })

  it("status: one value, values with commas, or an array; an unknown one is 422", async () => {
    const token = await gateway.user()
    const [done, open] = [(await gateway.create(token)).body.uuid, (await gateway.create(token)).body.uuid]
    const turn = { output: [{ type: "text", text: "done" }], messages: [], metadata: {} }
    await gateway.report(await gateway.service.run(done), { type: "completed", turn })
    const found = async (query: string) => {
      const { body } = await gateway.call("GET", `/api/tasks?${query}`, token)
      return body.data.map(({ uuid }: { uuid: string }) => uuid)
    }
    assert.deepStrictEqual(await found("status=completed"), [done])
    assert.deepStrictEqual(await found("status=pending,completed"), [open, done])
    assert.deepStrictEqual(await found("status[]=pending&status[]=completed"), [open, done])
    assert.deepStrictEqual(await found("status%5B%5D=failed"), [])
    for (const status of ["done", "pending,done", "", "PENDING", "pending,", "null"]) {
      const { body, status: code } = await gateway.call("GET", `/api/tasks?status=${status}`, token)
      assert.deepStrictEqual([code, body.data], [422, undefined], status)
    }
    const { body } = await gateway.call("GET", "/api/tasks", token)
    for (const row of body.data) assert.notProperty(row, "turn")
  })
}

export const limits = (door: Door) => {
  describe("limits", async () => {
    const gateway = await use(Gateway.start(door))
    ofRequests(gateway)
    ofActiveTasks(gateway)
    ofLists(gateway)
  })
}
