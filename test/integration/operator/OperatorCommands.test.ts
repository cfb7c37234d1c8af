/** The commands of operators: their output and exit codes. */
import { assert, describe, it, onTestFinished } from "vitest"
import { commandsIn, runHere } from "../../kit/runToEnd.ts"
import { freePort, internalToken, jwtSecret, Service } from "../../kit/Service.ts"
import { use, useDirectory } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const folder = useDirectory()
const { database, service, settings } = await use(startSystem({ CORE_URL: "", DATA_DIR: folder }))

const environment = {
  DATABASE_URL: database.url,
  JWT_SECRET: jwtSecret,
  INTERNAL_TOKENS: internalToken,
  DATA_DIR: folder,
  TASK_SERVICE_URL: service.url
}

const { json, run } = commandsIn(environment)

describe("the commands of operators", () => {
  it("show tasks, failures, clocks, webhooks and revocations", async () => {
    const { uuid } = await json("create", "What is 6 * 7?")
    await run("watch", uuid)
    const { data } = await json("tasks", "list", "--status", "completed", "--limit", "1")
    assert.strictEqual(data[0].uuid, uuid)
    assert.match((await run("tasks", "show", uuid)).out, /status {2,}completed[^]*Completed/)
    assert.match((await run("errors")).out, /FAILURES|No failures/)
    assert.isArray((await json("clocks")).stops)
    assert.match((await run("webhooks", "list")).out, /DELIVERY|No webhooks/)
    assert.deepStrictEqual(await json("webhooks", "redeliver", "--origin", "http://nobody.example", "--dry-run"), {
      matched: 0,
      owed: 0,
      needs_secret: 0,
      left: 0
    })
    assert.match((await run("overview")).out, /^live tasks +\d+ pending[^]*\nlast hour +\d+ created/)
    assert.match((await run("revocations")).out, /REVOKED|No revocations/)
    assert.match((await run("tasks", "list", "--status", "nonsense")).err, /status: Expected one of/)
  })

  it("change many tasks, show and erase a user, and list the audit", async () => {
    const { uuid } = await json("create", "What is 6 * 7?")
    await run("watch", uuid)
    const { matched, sample } = await json("bulk", "start", "delete", "--ids", uuid, "--dry-run")
    assert.deepStrictEqual([matched, sample[0].uuid], [1, uuid])
    assert.match(
      (await run("bulk", "start", "cancel", "--status", "failed")).err,
      /filter\.status: Expected tasks that have not ended/
    )
    const done = await json("bulk", "start", "delete", "--ids", uuid, "--reason", "a test", "--wait")
    assert.deepStrictEqual([done.state, done.done, done.reason], ["done", 1, "a test"])
    assert.match((await run("bulk", "list")).out, /ACTION[^]*delete +done/)
    assert.match((await run("bulk", "show", done.id)).out, /progress +1 done, 0 skipped, 0 failed of 1/)
    assert.strictEqual((await run("bulk", "stop", done.id)).code, 1)
    assert.match((await run("user", "limit", "a service", "7")).out, /may have 7 active tasks/)
    assert.match((await run("user", "show", "a service")).out, /slots +0 of 7 \(own limit\)/)
    const { code, err } = await run("user", "export", "a service")
    assert.deepStrictEqual([code, /OPERATOR_CONTENT=on/.test(err)], [1, true])
    for (const word of ["none", "default"]) {
      const lifted = await run("user", "limit", "a service", word)
      assert.deepStrictEqual([lifted.code, lifted.out], [0, "The user has the default limit."])
    }
    for (const word of ["many", "0", "1.5"]) assert.strictEqual((await run("user", "limit", "a service", word)).code, 2)
    assert.notMatch((await run("user", "show", "a service")).out, /[{}"]/)
    assert.match((await run("user", "erase", "a service")).err, /Nothing was erased/)
    assert.strictEqual((await json("user", "erase", "a service", "--confirm", "a service", "--wait")).state, "done")
    const { data } = await json("audit", "--operator", "token-1", "--action", "bulk_delete")
    assert.deepStrictEqual([data[0].via, data[0].reason], ["cli", "a test"])
    assert.match((await run("doctor")).out, /names of tokens +may change: token-1/)
  })

  it("cancel a running task, which the user's command refuses", async () => {
    const { uuid } = await json("create", "-a", "3", "take 60")
    const refused = await run("cancel", uuid)
    assert.strictEqual(refused.code, 1)
    assert.match(refused.err, new RegExp(`^The task is \\w+, not interrupted. .*async-task-service stop ${uuid}$`))
    assert.deepStrictEqual(await json("tasks", "cancel", uuid, "-r", "not now"), { uuid, status: "canceled" })
    assert.strictEqual((await json("get", uuid)).error, "not now")
    const ended = await run("tasks", "cancel", uuid)
    assert.deepStrictEqual([ended.code, /has ended: it is canceled/.test(ended.err)], [1, true])
    await json("delete", uuid)
    assert.deepStrictEqual(await run("tasks", "cancel", uuid), { code: 1, out: "", err: "There is no such task." })
  })

  it("list the nodes, drain one and take it in", async () => {
    const alone = { shards: null, is_self: true, drained: false, tasks: 0, lateness_ms: 0 }
    const { members } = await json("nodes", "list")
    assert.lengthOf(members, 1)
    assert.deepInclude(members[0], alone)
    assert.strictEqual((await run("nodes", "drain")).out, "The node is drained.")
    assert.match((await run("nodes", "list")).out, /^INSTANCE +NODE .*\n[0-9a-f-]{36} +127.0.0.1:\d+ .* self, drained$/)
    assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 503)
    await service.logged(/draining: an operator asked for it[^]*an operator wants a node to be drained/)
    assert.match((await run("doctor")).out, / is not ready: membership: drained$/m)
    const { instance } = members[0]
    assert.deepStrictEqual(await json("nodes", "take-in", instance), { instance, wanted: "taken_in" })
    assert.deepInclude((await json("nodes", "list")).members[0], alone)
    assert.strictEqual((await fetch(`${service.url}/readyz`)).status, 200)
    const unknown = await run("nodes", "drain", crypto.randomUUID())
    assert.deepStrictEqual([unknown.code, unknown.err], [1, "No node that reports has this instance."])
    const refused = await run("nodes", "list", "--internal-token", "wrong")
    assert.deepStrictEqual([refused.code, /token/i.test(refused.err)], [1, true])
    const lost = await run("nodes", "list", "--url", "http://127.0.0.1:1")
    assert.match(lost.err, /^Request to the service at .* failed: /)
  })

  it("use INTERNAL_PORT", async () => {
    const internalPort = String(await freePort())
    const apart = await use(Service.start({ ...settings, INTERNAL_PORT: internalPort }), onTestFinished)
    const { out } = await runHere(["nodes", "list", "--json"], {
      PORT: new URL(apart.url).port,
      INTERNAL_PORT: internalPort,
      INTERNAL_TOKENS: internalToken
    })
    assert.lengthOf(JSON.parse(out).members, 1)
    // Nor does any other call of operators reach them through PORT.
    for (const path of ["overview", "session"]) {
      const statuses = [apart.url, `http://127.0.0.1:${internalPort}`].map(async (url) =>
        (await fetch(`${url}/internal/operator/${path}`, { headers: { authorization: `Bearer ${internalToken}` } }))
          .status
      )
      assert.deepStrictEqual(await Promise.all(statuses), [404, 200], path)
    }
  })
})
