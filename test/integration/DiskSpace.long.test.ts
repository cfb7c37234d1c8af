import { assert, describe, it } from "vitest"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const { core, database, service } = await use(startSystem({ MAX_ACTIVE_TASKS: "1000", ACCEPTANCE_TIMEOUT: "1 hour" }))
core.onStart = () => 202

const users = 50
const tasksOfEach = 120

describe("a waiting task", () => {
  it("takes at most 1,000 bytes of disk, with its request and all indexes", async () => {
    const tokens = await Promise.all(Array.from({ length: users }, (_, user) => mint(`user-${user}`)))
    await Promise.all(tokens.map(async (token) => {
      for (let n = 0; n < tasksOfEach; n++) {
        assert.strictEqual((await service.create(token, "What is 6 * 7?")).status, 201)
      }
    }))
    const [row] = await database.query<{ readonly bytes: number }>(`
      SELECT sum(pg_relation_size(oid))::int AS bytes FROM pg_class
      WHERE oid IN ('tasks'::regclass, 'task_requests'::regclass) OR oid IN (
        SELECT indexrelid FROM pg_index WHERE indrelid IN ('tasks'::regclass, 'task_requests'::regclass)
      )`)
    assert.isBelow(row!.bytes / (users * tasksOfEach), 1000)
  })
})
