import { assert, beforeAll, describe, it } from "vitest"
import { resetStatements } from "../kit/databases.ts"
import { complete, report, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem({ CORE_TOKEN: "core-token" }))
const { core, service } = system

const sixDigits = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/

describe("a task", () => {
  it("is dispatched with what the core needs of its request, and nothing else", async () => {
    const token = await mint("alice")
    const created = await service.create(token, "hello", {
      turns: [{ role: "user", content: "before" }, {
        messages: [{ role: "assistant", content: "spliced" }],
        output: []
      }],
      client_tools: [{ type: "function", function: { name: "look", parameters: { type: "object" } } }],
      llm_model_id: 7,
      image_generator_id: null
    })
    const { uuid } = created.body

    const run = await system.runOf(uuid)
    const { deadline_at, events_url, run_id, user_token, ...rest } = run
    assert.strictEqual(user_token, token)
    assert.strictEqual(events_url, `${service.url}/internal/core/events`)
    assert.match(String(deadline_at), sixDigits)
    assert.match(run_id, /^[0-9a-f-]{36}$/)
    assert.deepStrictEqual(rest, {
      task_id: uuid,
      user: { sub: "alice" },
      resume: null,
      assistant_id: 1,
      input: [{ type: "text", text: "hello" }],
      turns: [{ role: "user", content: "before" }, { role: "assistant", content: "spliced" }],
      client_tools: [{ type: "function", name: "look", parameters: { type: "object" } }],
      llm_model_id: 7,
      image_generator_id: null
    })
  })
})

describe("a dispatch", () => {
  it("does not delay other tasks while it is slow, and applies an event that arrives before its response", async () => {
    const token = await mint("liam")
    let release = () => {}
    const slow = new Promise<void>((resolve) => release = resolve)
    core.onStart = async (run) => {
      await complete(run, "before the response")
      await slow
      return 202
    }
    const { uuid } = (await service.create(token, "x")).body
    const { body } = await service.until(token, uuid, "completed")
    assert.deepStrictEqual(body.turn, turnOf("before the response"))
    core.onStart = () => 202
    release()
  })
})

describe("the cost of a task", () => {
  const ofThisDatabase = "dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
  beforeAll(() => system.database.query("CREATE EXTENSION pg_stat_statements"))

  it("is at most 3 statements from create to completed", async () => {
    const count = 25
    await system.database.query(resetStatements)
    const tokens = await Promise.all(Array.from({ length: count }, (_, n) => mint(`cost-${n}`)))
    // Sequentially, because concurrent requests share statements.
    for (const token of tokens) {
      const completed = new Promise((resolve) => {
        core.onStart = (run) => {
          void report(run, { type: "processing" }).then(() => complete(run)).then(resolve)
          return 202
        }
      })
      await service.create(token, "x")
      await completed
    }
    core.onStart = () => 202
    // Periodic statements do not grow with the number of tasks.
    const statements = await system.database.query<{ calls: number; query: string }>(
      `SELECT calls::int, query FROM pg_stat_statements
      WHERE ${ofThisDatabase} AND toplevel AND calls >= ${count}`
    )
    const calls = statements.reduce((sum, statement) => sum + statement.calls, 0)
    assert.isAtMost(calls / count, 3, statements.map(({ calls, query }) => `${calls} ${query.slice(0, 60)}`).join("\n"))
    assert.isAtLeast(calls / count, 3)
  })

  it("is read once by a long poll when it ends", async () => {
    const reads = async () => {
      const [row] = await system.database.query<{ calls: number }>(
        `SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements
        WHERE ${ofThisDatabase} AND query LIKE 'SELECT found.*%'`
      )
      return row!.calls
    }
    const token = await mint("waits")
    const countReads = async () => {
      const { uuid } = (await service.create(token, "x")).body
      const run = await system.runOf(uuid)
      const before = await reads()
      const waited = service.call("GET", `/api/tasks/${uuid}?wait=10`, token)
      // Once before it waits, and once when it is sure to be notified of changes.
      const waiting = await eventually(reads, (now) => now >= before + 2)
      await complete(run, "done")
      assert.deepStrictEqual((await waited).body.turn, turnOf("done"))
      return await reads() - waiting
    }
    // The check of watched tasks, each 5 s, may read it too.
    const counts = [await countReads(), await countReads()]
    assert.strictEqual(Math.min(...counts), 1, counts.join(" and "))
  })
})

describe("request validation", () => {
  it("reports an invalid field at the client's path, without internal type names", async () => {
    const token = await mint("olivia")
    const tools = [
      { type: "function", function: { name: "a b", strict: 1 } },
      { name: "b", inputSchema: 1 },
      { type: "custom", name: "c", input_schema: [] },
      { type: "other", function: { name: "d" } }
    ]
    const { body } = await service.call("POST", "/api/tasks", token, {
      assistant_id: 1,
      input: [null, 1],
      turns: [{ role: "user", content: null }],
      client_tools: tools
    })
    assert.deepStrictEqual(body.errors, {
      "input.0": ["Expected an object"],
      "input.1": ["Expected an object"],
      "turns.0.content": ["Expected a string or an array of parts"],
      "client_tools.0.function.name": ["Expected 1 to 64 letters, digits, _ or -"],
      "client_tools.0.function.strict": ["Expected boolean"],
      "client_tools.1.inputSchema": ["Expected an object"],
      "client_tools.2.input_schema": ["Expected an object"],
      "client_tools.3.type": [`Expected "function"`]
    })
    const { uuid } = (await service.create(token, "x")).body
    const { body: refused } = await report(await system.runOf(uuid), { type: "interrupted", tool_calls: [] })
    assert.deepStrictEqual(refused["errors"], { tool_calls: ["Expected at least one item"] })
  })

  it("refuses a callback_url whose host is longer than a DNS name, before or after normalization", async () => {
    const token = await mint("peggy")
    const label = "x".repeat(49)
    const ofLength = (length: number) => `${`${label}.`.repeat(5)}${"x".repeat(length - 250)}`
    for (const host of [ofLength(254), "\u4e2d\u6587".repeat(200), `u:p@${ofLength(254)}:8080`]) {
      const { body, status } = await service.create(token, "x", { callback_url: `http://${host}/` })
      assert.deepStrictEqual(
        [status, body.message],
        [422, "callback_url: Expected a host of at most 253 characters"],
        host
      )
    }
    const { status } = await service.create(token, "x", { callback_url: `http://u:p@${ofLength(253)}:8080/` })
    assert.strictEqual(status, 201)
  })
})
