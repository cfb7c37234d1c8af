/** A task whose run takes its node down: it fails after a few restarts, and its neighbours are completed. */
import { once } from "node:events"
import { afterEach, assert, beforeEach, describe, it } from "vitest"
import { type OpenDatabase, openDatabase } from "../kit/databases.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"

let database: OpenDatabase
let token: string

beforeEach(async () => {
  database = await openDatabase()
  token = await mint("ann")
})

afterEach(() => database.drop())

const start = (port?: number, settings = {}) =>
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

const ended = async ({ process }: Service) => {
  if (process.exitCode === null && process.signalCode === null) await once(process, "exit")
  return process.signalCode
}

const rows = () =>
  database.query<{ uuid: string; status: string; error: string | null }>(
    "SELECT uuid, status, error FROM tasks ORDER BY uuid"
  )

/** Starts the service until all tasks have ended, as whoever runs it would; returns how often that was. */
const restartUntilDone = async (port: number, settings = {}) => {
  for (let starts = 1; starts <= 8; starts++) {
    const service = await start(port, settings).catch(() => undefined)
    if (service === undefined) continue
    const isOver = async () => service.process.exitCode !== null || service.process.signalCode !== null
    const isDone = async () => (await rows()).every(({ status }) => status === "completed" || status === "failed")
    await eventually(async () => await isOver() || await isDone(), (over) => over, 40_000)
    if (!(await isOver())) return { service, starts }
  }
  throw new Error("no start was the last")
}

describe("a run that takes its node down", () => {
  it("by blocking it fails after some restarts, and its neighbours are completed", async () => {
    const port = await freePort()
    const first = await start(port)
    const neighbours = await Promise.all(Array.from({ length: 4 }, () => create(first, "3000")))
    const poison = await create(first, "spin")
    assert.strictEqual(await ended(first), "SIGALRM")
    assert.include(first.output, "the event loop has been blocked for 2s (WATCHDOG_TIMEOUT)")
    const { service, starts } = await restartUntilDone(port)
    assert.isAtMost(starts, 4)
    for (const { error, status, uuid } of await rows()) {
      const expected = uuid === poison ? ["failed", "Task processing failed"] : ["completed", null]
      assert.deepStrictEqual([status, error], expected, uuid)
    }
    assert.lengthOf(neighbours, 4)
    assert.include(service.output, poison)
    assert.strictEqual((await fetch(`${service.url}/healthz`)).status, 200)
    await service.stop()
    assert.strictEqual(service.process.exitCode, 0)
  }, 120_000)
})
