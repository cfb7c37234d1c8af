/** What operators put aside is the same for all of them, has a bound, and changes nothing else. */
import { assert, describe, it } from "vitest"
import { internalToken, mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const readToken = "a-token-that-only-reads-0123456789"
const { database, service } = await use(
  startSystem({ INTERNAL_TOKEN_NAMES: "ana", OPERATOR_READ_TOKENS: readToken })
)
const path = "/internal/operator/silences"
const put = (body: unknown, token = internalToken) => service.call("PUT", path, token, body)
const list = async () => (await service.call("GET", path, readToken)).body.data
const cause = { kind: "cause", key: "Model … is overloaded" }

describe("silences", () => {
  it("are seen by every operator, and changed by those who may change something", async () => {
    const { body, status } = await put({ ...cause, hours: 24 })
    assert.strictEqual(status, 200)
    assert.deepInclude(body, { ...cause, by: "ana" })
    const left = Date.parse(body.until) - Date.now()
    assert.isTrue(left > 23.9 * 3_600_000 && left <= 24 * 3_600_000)
    assert.deepStrictEqual(await list(), [body])
    assert.strictEqual((await put({ ...cause, hours: 1 }, readToken)).status, 403)
    assert.strictEqual((await put({ ...cause, hours: 1 }, await mint("user"))).status, 401)
    assert.deepStrictEqual((await put({ ...cause, hours: null })).body, { ...cause, until: null, by: "ana" })
    assert.deepStrictEqual(await list(), [])
  })

  it("end by themselves", async () => {
    await put({ kind: "alert", key: "clocks_late 1", hours: 1 })
    await database.query("UPDATE operator_silences SET until = now() - interval '1 second'")
    assert.deepStrictEqual(await list(), [])
    await put({ ...cause, hours: 1 })
    assert.strictEqual((await database.query("SELECT key FROM operator_silences")).length, 1)
  })

  it("name each field that is wrong", async () => {
    const key = "k".repeat(601)
    for (
      const [body, field] of [
        [{ ...cause, hours: 0 }, "hours"],
        [{ ...cause, hours: 745 }, "hours"],
        [cause, "hours"],
        [{ ...cause, kind: "task", hours: 1 }, "kind"],
        [{ ...cause, key, hours: 1 }, "key"],
        [{ ...cause, key: "\0", hours: 1 }, "key"]
      ] as const
    ) {
      const { body: answer, status } = await put(body)
      assert.deepStrictEqual([status, Object.keys(answer.errors)], [422, [field]], JSON.stringify(body))
    }
    assert.strictEqual((await put({ ...cause, key: "💥".repeat(300), hours: 1 })).status, 200)
  })

  it("are the newest thousand", async () => {
    await database.query(`INSERT INTO operator_silences
      SELECT 'alert', 'old ' || n, now() + interval '1 day', 'ana', now() - n * interval '1 minute' FROM generate_series(1, 1100) AS n`)
    await put({ kind: "alert", key: "new", hours: 1 })
    const kept = await list()
    assert.deepStrictEqual([kept.length, kept[0].key], [1000, "new"])
    assert.strictEqual((await database.query("SELECT FROM operator_silences")).length, 1000)
  })
})
