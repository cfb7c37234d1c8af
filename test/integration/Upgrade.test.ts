import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { complete, interrupt, turnOf } from "../kit/ScriptedCore.ts"
import { mint, Service } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const system = await use(startSystem())

/** A migration of the next version, which only adds. */
const expansion = `
  DO $$
  DECLARE
    name text;
  BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
      EXECUTE format('ALTER TABLE %I ADD COLUMN of_the_next_version integer DEFAULT 1', name);
    END LOOP;
    CREATE INDEX of_the_next_version ON tasks (created_at);
    CREATE TABLE of_the_next_version_too (id integer);
    INSERT INTO async_task_service_versions (owner, version) VALUES ('core', 9999);
  END $$`

const readinessOf = async (service: Service) => {
  const response = await fetch(`${service.url}/readyz`)
  return { status: response.status, body: await response.json() as { readonly checks?: object } }
}

/** Creates a task, and has it interrupted, answered and completed: every table takes part. */
const completeTask = async (service: Service, token: string) => {
  const { body: { uuid } } = await service.create(token, "x", {
    callback_url: "http://127.0.0.1:9/",
    callback_secret: "s"
  })
  const first = await system.runOf(uuid)
  await interrupt(first, { state: {}, turn: turnOf("asks") })
  const results = { results: [{ tool_call_id: "c1", output: 1 }] }
  await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, results, { "idempotency-key": uuid })
  await complete(await system.runOf(uuid, first))
  const { body } = await service.until(token, uuid, "completed")
  assert.deepStrictEqual(body.turn, turnOf("done"))
  assert.lengthOf((await service.call("GET", `/api/tasks/${uuid}/deliveries`, token)).body.data, 2)
}

describe("a node and a newer schema", () => {
  it("stays ready while a newer node migrates", async () => {
    const release = await system.database.hold("LOCK TABLE async_task_service_versions IN ACCESS EXCLUSIVE MODE")
    assert.strictEqual((await readinessOf(system.service)).status, 200)
    await release()
  })

  it("goes on working once the schema has grown, its prepared statements too", async () => {
    const token = await mint("upgraded")
    await completeTask(system.service, token)
    await system.database.query(expansion)
    await completeTask(system.service, token)
    assert.strictEqual((await readinessOf(system.service)).status, 200)
    assert.strictEqual((await system.service.call("GET", "/api/tasks", token)).body.meta.total, 2)
  })

  it("starts on it, as after a rollback of the code", async () => {
    const older = await Service.start(system.settings)
    await completeTask(older, await mint("rolled back"))
    assert.strictEqual((await readinessOf(older)).status, 200)
    await older.stop()
  })
})

describe("the query about encryption keys in the deployment guide", () => {
  it("counts the encrypted secrets by key", async () => {
    const page = fs.readFileSync(new URL("../../src/runtime/deployment/README.md", import.meta.url), "utf8")
    const [, query = ""] = /```sql\n([^`]+)```/.exec(page) ?? []
    await system.service.create(await mint("sealed"), "x", {
      callback_url: "https://client.example/",
      callback_secret: "s"
    })
    const [row, ...others] = await system.database.query<{ key: string; count: bigint }>(query)
    assert.strictEqual(row?.key, createHash("sha256").update(Buffer.alloc(32, 7)).digest("hex").slice(0, 8))
    assert.isAtLeast(Number(row?.count), 2)
    assert.isEmpty(others)
  })
})
