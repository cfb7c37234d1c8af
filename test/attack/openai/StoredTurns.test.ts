/** Small requests of the OpenAI façade that refer to large stored turns. */
import { assert, beforeAll, describe, it } from "vitest"
import { complete } from "../../kit/ScriptedCore.ts"
import { mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { type Observation, startVictim } from "../kit/Victim.ts"

const turns = Number(process.env["ATTACK_TURNS"] ?? 8)
const gone = Number(process.env["ATTACK_GONE"] ?? 40)
const bytes = 15 * 1024 * 1024

const victim = await use(startVictim({ FACADE_MODELS: "gpt-5=1", MAX_ACTIVE_TASKS: "1000" }))
victim.core.largest = 1024 * 1024
const token = await mint("owner")

const post = async (body: object, signal?: AbortSignal) => {
  const response = await fetch(`${victim.service.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "gpt-5", background: true, ...body }),
    signal: signal ?? null
  })
  await response.text()
  return response.status
}

const uuidOf = (id: string) => id.slice(5, 37).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")

const ids: Array<string> = []

/** Fills the turns with messages that do not compress, and the text of one item. */
const fill = (text: string) =>
  victim.database.query(`WITH filler AS MATERIALIZED (
      SELECT string_agg(md5(n::text), '') AS words FROM generate_series(1, ${Math.ceil(bytes / 32)}) n
    ) UPDATE task_turns SET turn = '{"messages":[{"role":"user","content":"' || words || '"}],"output":[{"type":"text","text":"'
      || ${text} || '"}]}' FROM filler`)

beforeAll(async () => {
  for (let n = 0; n < turns; n++) {
    const { body } = await victim.service.call("POST", "/v1/responses", token, {
      model: "gpt-5",
      input: "x",
      background: true
    })
    await complete(await victim.runOf(uuidOf(body.id)))
    ids.push(body.id)
  }
  await fill("'found'")
}, 120_000)

/** The probes of `/healthz` are measured by the clock, so that other processes delay the slowest of them. */
const assertSmall = ({ health, longestTurn, peakMemory }: Observation) => {
  assert.isBelow(longestTurn, 50, "ms of the event loop")
  assert.isBelow(health[Math.floor(0.95 * health.length)] ?? 0, 200, "ms of /healthz")
  assert.isBelow(health.at(-1) ?? 0, 1500, "ms of /healthz")
  assert.isBelow(peakMemory, 600, "MiB")
}

const references = () => [
  ...ids.map((id) => ({ type: "item_reference", id: id.replace("resp_", "msg_") })),
  { role: "user", content: "more" }
]

describe("large stored turns", () => {
  it("are referred to by six requests at a time", async () => {
    assertSmall(
      await victim.observe(async () => {
        const statuses = await Promise.all(Array.from({ length: 6 }, () => post({ input: references() })))
        assert.deepStrictEqual([...new Set(statuses)], [200])
      })
    )
  }, 300_000)

  it("are continued by eight requests at a time", async () => {
    assertSmall(
      await victim.observe(async () => {
        const statuses = await Promise.all(
          Array.from({ length: 8 }, (_, n) => post({ input: "more", previous_response_id: ids[n % ids.length] }))
        )
        assert.deepStrictEqual([...new Set(statuses)], [200])
      })
    )
  }, 60_000)

  it(`are continued and referred to by ${gone} clients that go away`, async () => {
    let refused = 0
    const observed = await victim.observe(async () => {
      await Promise.all(Array.from({ length: gone }, async (_, n) => {
        const body = n % 2 === 0
          ? { input: "more", previous_response_id: ids[n % ids.length] }
          : { input: references() }
        const status = await post(body, AbortSignal.timeout(200 + 20 * n)).catch(() => 200)
        if (status !== 200) refused++
      }))
      await new Promise((resolve) => setTimeout(resolve, 5000))
    })
    assertSmall(observed)
    assert.strictEqual(refused, 0)
  }, 120_000)

  it("with long texts are read by ten clients at a time", async () => {
    await fill("words")
    assertSmall(
      await victim.observe(async () => {
        await Promise.all(Array.from({ length: 10 }, async (_, n) => {
          const { status } = await victim.service.call("GET", `/v1/responses/${ids[n % ids.length]}`, token)
          assert.strictEqual(status, 200)
        }))
      })
    )
  }, 60_000)
})
