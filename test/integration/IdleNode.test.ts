/** What a node costs its database while nothing is live, and that it keeps its moments from there. */
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { temporaryDirectory } from "../kit/directories.ts"
import { answerJson, LoopbackServer } from "../kit/LoopbackServer.ts"
import { pause } from "../kit/pause.ts"
import { complete } from "../kit/ScriptedCore.ts"
import { eventually, internalToken, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

/** Milliseconds after which a node that has just started is idle. */
const settling = 8000

describe("an idle node", () => {
  it.concurrent.for([1, 2])(
    "sends at most 3 statements a second, as one of %i",
    { timeout: 90_000 },
    async (nodes, { onTestFinished }) => {
      const log = temporaryDirectory()
      fs.chmodSync(log, 0o777)
      const server = await startPostgres([
        "log_statement=all",
        "logging_collector=on",
        `log_directory=${log}`,
        "log_filename=statements.log",
        "log_file_mode=0644"
      ])
      onTestFinished(() => server.stop())
      const settings = { DATABASE_URL: await server.makeDatabase("idle") }
      const service = await use(Service.start(settings), onTestFinished)
      for (let others = nodes - 1; others > 0; others--) await use(Service.start(settings), onTestFinished)
      await pause(settling)
      const statements = () =>
        fs.readFileSync(path.join(log, "statements.log"), "utf8").match(/LOG: +(execute|statement)/g)
      const before = statements()?.length ?? 0
      const seconds = 30
      await pause(seconds * 1000)
      const sent = (statements()?.length ?? 0) - before
      assert.isAbove(before, 20)
      assert.isAbove(sent, 0)
      assert.isAtMost(sent / seconds / nodes, 3)
      assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 200)
    }
  )

  it.concurrent(
    "keeps the moments of another node that is killed, and learns its revocations within 5 s",
    async ({ onTestFinished }) => {
      const { core, database, service: idle, settings } = await use(
        startSystem({ WEBHOOK_ALLOW_PRIVATE: "true" }),
        onTestFinished
      )
      const attempts: Array<number> = []
      const target = await use(
        new LoopbackServer(async (_, response) => {
          attempts.push(performance.now())
          answerJson(response, attempts.length === 1 ? 500 : 200, {})
        }).listen(),
        onTestFinished
      )
      const other = await use(Service.start(settings), onTestFinished)
      const [token, revoked] = await Promise.all([mint("someone"), mint("another", { jti: "revoked" })])
      await pause(settling)

      await other.call("POST", "/internal/tokens/revoke", internalToken, { jti: "revoked" })
      const revokedAt = performance.now()
      await eventually(() => idle.call("GET", "/api/tasks", revoked), ({ status }) => status === 401)
      assert.isBelow(performance.now() - revokedAt, 10_000)

      await pause(settling)
      const late = await other.create(token, "never ends", { max_execution_time: 8 })
      const createdAt = performance.now()
      const ended = await other.create(token, "ends", { callback_url: `${target.url}/hook` })
      await complete(await core.run(ended.body.uuid))
      await eventually(
        () => database.query("SELECT FROM webhook_deliveries WHERE NOT sending AND attempts = 1 AND due_at > now()"),
        ({ length }) => length === 1
      )
      await other.stop("SIGKILL")
      await idle.until(token, late.body.uuid, "failed", 15_000)
      assert.isAtLeast(performance.now() - createdAt, 7900)
      await eventually(async () => attempts.length, (count) => count === 2, 20_000)
      assert.isAtLeast(attempts[1]! - attempts[0]!, 9900)
    },
    90_000
  )
})
