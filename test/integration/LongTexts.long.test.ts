/** Texts of more than a megabyte have a transaction: what happens to it when its node or its connection does not last. */
import { assert, describe, it, onTestFinished } from "vitest"
import { Proxy } from "../chaos/Proxy.ts"
import { openDatabase } from "../kit/databases.ts"
import { pause } from "../kit/pause.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"

const long = "é".repeat(8_000_000)

const start = async () => {
  const database = await use(openDatabase(), onTestFinished)
  const proxy = await use(Proxy.before(database.url), onTestFinished)
  const settings = { DATABASE_URL: proxy.urlOf(database.url), CORE_URL: "http://127.0.0.1:1" }
  const service = await use(Service.start(settings), onTestFinished)
  return { database, proxy, service }
}

describe("a task with a long text", () => {
  it("is refused with 503 when the connection is lost while it is sent, and nothing remains", async () => {
    const { proxy, service } = await start()
    proxy.link.latency = 50
    for (const cutAfter of [500, 800, 1100]) {
      const token = await mint(`someone-${cutAfter}`)
      const created = service.create(token, long)
      await pause(cutAfter)
      proxy.cut()
      const { status } = await created
      assert.strictEqual(status, 503)
      const list = await eventually(() => service.call("GET", "/api/tasks", token), (answer) => answer.status === 200)
      assert.deepStrictEqual(list.body.data, [])
    }
    assert.notInclude(service.output, "ERROR")
  })

  it("does not keep its user's other tasks waiting when its node stalls", async () => {
    const { database, service } = await start()
    const token = await mint("someone")
    const lock = "pg_advisory_xact_lock(hashtextextended('async-task-service:someone', 0))"
    const held = database.query(`SELECT ${lock}, pg_sleep(3)`)
    const created = service.create(token, long)
    await eventually(
      () => database.query("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"),
      ({ length }) => length === 1
    )
    service.signal("SIGSTOP")
    await held
    const askedAt = performance.now()
    await database.query(`SELECT ${lock}`)
    // A statement waits for a lock for at most 5 s.
    assert.isBelow(performance.now() - askedAt, 4900)
    service.signal("SIGCONT")
    const { status } = await created
    const list = await eventually(() => service.call("GET", "/api/tasks", token), (answer) => answer.status === 200)
    assert.deepStrictEqual([status, list.body.data], [503, []])
  })
})
