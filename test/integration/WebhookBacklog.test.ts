/** Claims of webhooks beside a backlog, of which a claim reads a sample. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { enqueueMany } from "../attack/kit/webhookCrowd.ts"
import { commit } from "../kit/StoredTasks.ts"
import { called, claimAll, record } from "../kit/StoredWebhooks.ts"
import { layerSql } from "../kit/StoreLayers.ts"

const small = { limit: 64 }

const originsOf = (claimed: ReadonlyArray<{ readonly origin: string }>) => claimed.map(({ origin }) => origin)

layer(layerSql)("a claim beside the backlog of a user", (it) => {
  const enqueued = Effect.fnUntraced(function*(...given: Parameters<typeof called>) {
    const found = yield* called(...given)
    yield* commit(found.uuid, "Completed")
    return found.origin
  })

  it.effect("has the deliveries of other users and to proven origins, and those of all origins in turn", () =>
    TestClock.withLive(Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const proven = yield* enqueued()
      for (const delivery of yield* claimAll({ origin: proven })) yield* record(delivery, null)
      yield* sql.unsafe(enqueueMany({ deliveries: 3000, targets: 500, sub: "crowd" }))
      const crowd = { principal: { sub: "crowd", tokenId: "token", issuedAt: 1_700_000_000 } }

      const fresh = yield* enqueued()
      assert.deepStrictEqual(originsOf(yield* claimAll({ ...small, unproven: 0 })), [])
      const none = { total: 0, unproven: 0 }
      assert.deepStrictEqual(originsOf(yield* claimAll({ ...small, byUser: new Map([["crowd", none]]) })), [fresh])
      const other = yield* enqueued()
      assert.include(originsOf(yield* claimAll(small)), other)
      yield* enqueued(null, `${proven}/hook`, null, crowd)
      assert.include(originsOf(yield* claimAll(small)), proven)

      const claimed = new Set<string>()
      for (let count = 0; count < 40; count++) {
        for (const origin of originsOf(yield* claimAll(small))) claimed.add(origin)
      }
      // Each claim has 64 of 500 origins at most, so that a fixed order would have had the same again and again.
      assert.isAbove(claimed.size, 300)
      for (let count = 0; count < 40; count++) yield* claimAll({})
      const [left] =
        yield* sql`SELECT count(*)::int AS count FROM webhook_deliveries WHERE due_at IS NOT NULL AND NOT sending`
      assert.deepStrictEqual(left, { count: 0 })
    })))
})
