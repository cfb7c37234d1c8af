/** A core that restarts loses no run, if it declares itself. */
import { assert, describe, it, onTestFinished } from "vitest"
import { startCluster } from "../kit/ClusterSystem.ts"
import { openDatabase } from "../kit/databases.ts"
import { pause } from "../kit/pause.ts"
import { complete, report, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"

const cli = "src/runtime/cli/Cli.ts"

const count = `SELECT status, count(*)::int AS count FROM tasks GROUP BY status`

describe("the built-in core, served alone and killed with 1,000 runs", () => {
  it("gets each of them again, and all of them end well", async () => {
    const database = await use(openDatabase(), onTestFinished)
    const shared = { DATA_DIR: useDirectory(onTestFinished), CORE_TOKEN: "token-of-the-core" }
    const [port, servicePort] = [await freePort(), await freePort()]
    const publicUrl = `http://127.0.0.1:${servicePort}`
    const only = (part: string) => [cli, "serve", "--only", part]
    const backend = await use(Service.start(shared, await freePort(), only("backend"), "/healthz"), onTestFinished)
    const startCore = () =>
      Service.start(
        { ...shared, ASSISTANT_BACKEND_URL: backend.url, PUBLIC_URL: publicUrl, MODEL_RUNS: "1000" },
        port,
        only("core"),
        "/healthz"
      )
    const core = await startCore()
    const service = await use(
      Service.start({
        ...shared,
        DATABASE_URL: database.url,
        CORE_URL: core.url,
        ASSISTANT_BACKEND_URL: backend.url,
        PUBLIC_URL: publicUrl,
        MAX_ACTIVE_TASKS: "10000"
      }, servicePort),
      onTestFinished
    )
    const token = await mint("someone")
    // The demo assistant that counts the seconds.
    for (let n = 0; n < 1000; n += 50) {
      await Promise.all(
        Array.from({ length: 50 }, () => service.create(token, "take 40", { assistant_id: 3 }))
      )
    }
    const counts = async () =>
      Object.fromEntries(
        (await database.query<{ status: string; count: number }>(count)).map((row) => [row.status, row.count])
      )
    await eventually(counts, ({ processing }) => processing === 1000, 60_000)
    await core.stop("SIGKILL")
    await use(startCore(), onTestFinished)
    assert.deepStrictEqual(await eventually(counts, ({ completed }) => completed === 1000, 400_000), {
      completed: 1000
    })
  }, 600_000)
})

describe("two nodes with a core that declares 10 s", () => {
  it("dispatch silent runs again, once, and living ones not at all, whatever the core answers to it", async () => {
    const system = await use(startCluster(), onTestFinished)
    const other = await use(system.startNode(), onTestFinished)
    system.core.declaration = { silence_seconds: 10 }
    const token = await mint("someone")
    const starts = new Map<string, number>()
    system.core.onStart = ({ run_id }) => {
      const before = starts.get(run_id) ?? 0
      starts.set(run_id, before + 1)
      return before === 0 ? 202 : [400, 409, 202][before % 3] ?? 202
    }
    const begin = async (node: Service) => {
      const { body: { uuid } } = await node.create(token, "Why?")
      const run = await system.runOf(uuid)
      await report(run, { type: "processing" })
      return run
    }
    // The core reports to the node that it does not belong to, too.
    const toNode = (run: StartedRun, node: Service) => ({ ...run, events_url: `${node.url}/internal/core/events` })
    const silent = [await begin(system.service), await begin(other)]
    const living = [await begin(system.service), await begin(other)]
    for (let second = 0; second < 24; second += 4) {
      await pause(4000)
      for (const run of living) {
        const node = second % 8 === 0 ? system.service : other
        const { body, status } = await report(toNode(run, node), { type: "progress" })
        assert.deepStrictEqual([status, body["applied"]], [200, false])
      }
    }
    assert.deepStrictEqual(living.map(({ run_id }) => starts.get(run_id)), [1, 1])
    assert.deepStrictEqual(silent.map(({ run_id }) => starts.get(run_id)), [2, 2])
    for (const { task_id } of silent) {
      const read = await other.call("GET", `/api/tasks/${task_id}?include=waiting_on`, token)
      assert.deepInclude(read.body.waiting_on, { party: "core", for: "result", hand_overs: 1 })
    }
    for (const run of [...silent, ...living]) {
      assert.strictEqual((await complete(run)).status, 200)
      assert.strictEqual((await report(run, { type: "progress", turn: turnOf("late") })).status, 409)
    }
  }, 120_000)
})
