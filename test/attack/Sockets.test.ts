/** Connections under attack: each closes soon after its response, and idle ones take few resources. */
import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { handshake, RawClient, requestHead as head } from "../kit/RawClient.ts"
import { eventually, mint } from "../kit/Service.ts"
import { expectQuiet, use } from "../kit/suite.ts"
import { startVictim } from "./kit/Victim.ts"

const victim = await use(startVictim())
expectQuiet(victim.service)
const token = await mint("sockets")
/** The number of open connections of the service's port, from the kernel's table. */
const connections = () => {
  const port = Number(new URL(victim.service.url).port).toString(16).toUpperCase().padStart(4, "0")
  const rows = fs.readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1).map((row) => row.trim().split(/\s+/))
  const inodes = new Set(rows.filter((row) => row[1]?.endsWith(`:${port}`) && row[9] !== "0").map((row) => row[9]))
  return inodes.size - 1
}

const open = async (request = "") => (await RawClient.open(victim.service.url)).send(request)

const authorized = () => `Authorization: Bearer ${token}`
const part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.exe\"\r\n\r\nx"
/** Requests that are answered early and never end, with the expected status. */
const unfinished = (): ReadonlyArray<readonly [number, string]> => [
  [401, head("POST /api/tasks", "Content-Length: 100") + "{"],
  [401, head("POST /api/tasks", "Content-Length: 10000000") + "{"],
  [401, head("POST /api/tasks", "Transfer-Encoding: chunked") + "9\r\n{"],
  [401, head("POST /api/files", "Content-Length: 10000000") + part],
  [401, head("POST /rpc", "Content-Length: 100") + "{"],
  [401, head("GET /rpc", ...handshake)],
  [401, head("POST /api/tasks", "Expect: 100-continue", "Content-Length: 100")],
  [404, head("POST /nowhere", "Content-Length: 100") + "{"],
  [404, head("POST /nowhere", "Content-Length: 10000000") + "{"],
  [404, head("GET /nowhere", ...handshake)],
  [405, head("DELETE /healthz", "Transfer-Encoding: chunked") + "9\r\n{"],
  [200, head("GET /healthz", "Content-Length: 100") + "{"],
  [200, head("GET /healthz", ...handshake)],
  [200, head("GET /healthz", "Connection: close")],
  [413, head("POST /api/tasks", authorized(), "Content-Length: 20000000") + "{"],
  [415, head("POST /api/tasks", authorized(), "Content-Encoding: gzip", "Content-Length: 1000") + "{"],
  [
    422,
    head(
      "POST /api/files",
      authorized(),
      "Content-Type: multipart/form-data; boundary=b",
      "Transfer-Encoding: chunked"
    ) + `${part.length.toString(16)}\r\n${part}\r\n`
  ],
  [400, "nonsense\r\n\r\n"],
  [431, `GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}`]
]

describe("a connection whose request does not end", () => {
  it("is closed soon after its response, on every route", async () => {
    await Promise.all(
      unfinished().map(async ([status, request]) => {
        for (let n = 0; n < 5; n++) assert.strictEqual((await (await open(request)).answer()).status, status, request)
      })
    )
    await eventually(async () => connections(), (count) => count < 5, 4000)
  })

  it("is closed soon, also with 1,000 of them", async () => {
    const { baseMemory, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < 10; n++) {
        await Promise.all(Array.from({ length: 100 }, async () => {
          const client = await open(head("POST /api/tasks", "Content-Length: 100000") + "{")
          assert.strictEqual((await client.answer()).status, 401)
        }))
      }
      await eventually(async () => connections(), (count) => count < 5, 4000)
    })
    assert.isBelow(peakMemory - baseMemory, 150)
  })

  it("is closed although its peer keeps sending", async () => {
    const clients = await Promise.all(
      unfinished().map(async ([, request]) => {
        const client = await open(request)
        await client.answer()
        return client
      })
    )
    const drip = setInterval(() => clients.forEach((client) => client.send("1")), 100)
    try {
      assert.isBelow(await eventually(async () => connections(), (count) => count < 5, 9000), 5)
    } finally {
      clearInterval(drip)
    }
  })

  it("stays open while its client sends, so that the client can read the response at the end", async () => {
    const chunk = Buffer.alloc(200_000, "x")
    const requests = [
      head("POST /api/tasks", "Content-Length: 20000000"),
      head("POST /api/files", "Content-Length: 20000000"),
      head("POST /rpc", "Content-Length: 20000000"),
      head("POST /nowhere", "Content-Length: 20000000"),
      head("POST /api/tasks", authorized(), "Content-Length: 20000000")
    ]
    await Promise.all(requests.map(async (request) => {
      const client = await open(request)
      client.socket.pause()
      for (let n = 0; n < 10; n++) {
        await client.sendAll(chunk)
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
      client.socket.resume()
      assert.oneOf((await client.answer()).status, [401, 404, 413])
      assert.notStrictEqual(client.ended, "reset")
    }))
  })

  it("accepts the next request if the first one ends in time", async () => {
    const client = await open(head("DELETE /healthz", "Content-Length: 3") + "1")
    assert.strictEqual((await client.answer()).status, 405)
    client.send("23" + head("GET /healthz"))
    assert.strictEqual((await client.answer(1)).status, 200)
    await new Promise((resolve) => setTimeout(resolve, 1500))
    client.send(head("GET /healthz"))
    assert.strictEqual((await client.answer(2)).status, 200)
  })
})

describe("idle connections", () => {
  it("take little memory and no CPU time, 1,000 of each kind", async () => {
    const kinds = [
      "",
      "GET /healthz HTTP/1.1\r\nHo",
      head("GET /healthz"),
      head("POST /api/tasks", "Content-Length: 9")
    ]
    const { baseMemory, longestTurn, peakMemory } = await victim.observe(async () => {
      for (const request of kinds) {
        for (let n = 0; n < 10; n++) await Promise.all(Array.from({ length: 100 }, () => open(request)))
      }
    })
    assert.isBelow(peakMemory - baseMemory, 150)
    assert.isBelow(longestTurn, 300)
  })
})

describe("responses that nobody reads", () => {
  it("take little memory, 500 of the largest page that needs no token", async () => {
    const page = await fetch(`${victim.service.url}/docs`)
    assert.isAbove((await page.arrayBuffer()).byteLength, 200_000)
    const { baseMemory, health, peakMemory } = await victim.observe(async () => {
      for (let n = 0; n < 5; n++) {
        await Promise.all(Array.from({ length: 100 }, async () => {
          const { socket } = await open(head("GET /docs"))
          await new Promise((resolve) => socket.once("data", () => resolve(socket.pause())))
        }))
      }
    })
    // Less than a copy for each.
    assert.isBelow(peakMemory - baseMemory, 75)
    assert.isBelow(health.at(-1) ?? 0, 1500)
  })
})

describe("pipelined requests", () => {
  it("beyond a bound close their connection", async () => {
    const client = await open(head("GET /readyz").repeat(1000))
    await eventually(async () => client.ended, (ended) => ended !== "open")
    const few = await open(head("GET /readyz").repeat(60))
    assert.strictEqual((await few.answer(59)).status, 200)
  })
})
