/** A task whose run takes its node down fails after a few restarts, and the other tasks are completed. */
import { once } from "node:events"
import { assert, beforeEach, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"

let database: OpenDatabase
const token = await mint("ann")

beforeEach(async () => {
  database = await openDatabase()
  return () => database.close()
})

type Settings = Readonly<Record<string, string>>

const start = (settings: Settings, port?: number) =>
  Service.start(
    { DATABASE_URL: database.url, WATCHDOG_TIMEOUT: "2 seconds", ...settings },
    port,
    "test/kit/PoisonedService.ts"
  )

const create = async (service: Service, text: string) => {
  const { body } = await service.create(token, text)
  assert.isString(body.uuid, JSON.stringify(body))
  return body.uuid as string
}

const isOver = ({ process }: Service) => process.exitCode !== null || process.signalCode !== null
const ended = async (service: Service) => {
  if (!isOver(service)) await once(service.process, "exit")
  return service.process.signalCode
}

const rows = () =>
  database.query<{ uuid: string; status: string; error: string | null }>("SELECT uuid, status, error FROM tasks")

/** Restarts a node whenever it has ended, as a process supervisor does, until it is stopped. */
const supervise = (port: number) => {
  const stopping = new AbortController()
  const { signal } = stopping
  let starts = 0
  let output = ""
  const run = async () => {
    while (!signal.aborted) {
      starts++
      const service = await start({}, port).catch((error: unknown) => {
        output += String(error)
      })
      if (service === undefined) continue
      while (!isOver(service) && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 50))
      output += service.output
      await service.stop()
    }
  }
  const running = run()
  return {
    starts: () => starts,
    stop: async () => {
      stopping.abort()
      await running
      return output
    }
  }
}

const allEnded = async () => (await rows()).every(({ status }) => status === "completed" || status === "failed")

describe("a run that takes its node down fails after some restarts, and the other tasks are completed", () => {
  for (const [text, signal] of [["spin", "SIGALRM"], ["kill", "SIGKILL"]] as const) {
    it(`when it ${text}s`, async () => {
      const port = await freePort()
      const first = await start({}, port)
      for (let count = 0; count < 4; count++) await create(first, "3000")
      const poison = await create(first, text)
      assert.strictEqual(await ended(first), signal)
      if (text === "spin") {
        assert.include(first.output, "the event loop has been blocked for 2s (WATCHDOG_TIMEOUT)")
      }
      const node = supervise(port)
      await eventually(allEnded, (done) => done, 60_000)
      for (const { error, status, uuid } of await rows()) {
        const expected = uuid === poison ? ["failed", "Task processing failed"] : ["completed", null]
        assert.deepStrictEqual([status, error], expected, uuid)
      }
      assert.isAtMost(node.starts(), 5)
      const output = await node.stop()
      assert.match(output, new RegExp(`tried last: ${poison}`))
      assert.notMatch(output, /"(spin|kill|3000)"/)
    }, 120_000)
  }
})

describe("the watchdog", () => {
  it("does not end a process that was suspended for longer than its timeout", async () => {
    const service = await start({ WATCHDOG_TIMEOUT: "600 millis" })
    for (let count = 0; count < 3; count++) {
      service.signal("SIGSTOP")
      await new Promise((resolve) => setTimeout(resolve, 1200))
      service.signal("SIGCONT")
      assert.strictEqual((await fetch(`${service.url}/healthz`)).status, 200)
    }
    await service.stop()
    assert.deepStrictEqual([service.process.exitCode, service.process.signalCode], [0, null])
  })

  it("can be switched off", async () => {
    const service = await start({ WATCHDOG_TIMEOUT: "off" })
    await create(service, "spin")
    await new Promise((resolve) => setTimeout(resolve, 3000))
    assert.isFalse(isOver(service))
    await service.stop("SIGKILL")
  })
})
