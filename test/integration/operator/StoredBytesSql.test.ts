/** The counts of what users keep, over real tables. */
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import { StoredBytesStore } from "../../../src/services/operator/StoredBytes.ts"
import * as StoredBytesSql from "../../../src/services/operator/StoredBytesSql.ts"
import * as Database from "../../kit/Database.ts"
import { check, type Queue } from "../../kit/OpenSnapshot.ts"

const due: Queue<StoredBytesStore> = {
  add: (count, due) =>
    `INSERT INTO stored_bytes (sub, due_at) SELECT gen_random_uuid(), ${due} FROM generate_series(1, ${count})`,
  leave: [`UPDATE stored_bytes SET due_at = now() + interval '1 day'`],
  claim: (at, from) =>
    Effect.flatMap(StoredBytesStore, (store) => store.claim(at, plus(at, Duration.minutes(1)), 16, from))
}

it.effect(
  "reads as few pages for counts as before many left the queue while a snapshot is open",
  () => check(due, StoredBytesSql.layer)
)

it.effect("notes every user of 45,000 tasks of one moment by statements that read 20,000 tasks", () =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const store = yield* StoredBytesStore
    yield* sql.unsafe(
      `INSERT INTO tasks (uuid, sub, status, run_id, max_execution_time, created_at, deadline_at, completed_at, token_id, assistant_id)
      SELECT gen_random_uuid(), 'user-' || n % 300, 'completed', gen_random_uuid(), 60, '2026-01-01Z', '2026-01-01Z', '2026-01-01Z',
        'token', 1
      FROM generate_series(1, 45000) AS n`
    )
    const at = yield* now
    let place: Parameters<typeof store.noteActive>[0] | null = {
      at: Timestamp.make(0),
      uuid: "00000000-0000-0000-0000-000000000000"
    }
    let statements = 0
    while (place !== null) {
      place = yield* store.noteActive(place, at, 1)
      statements += 1
    }
    assert.strictEqual(statements, 3)
    assert.lengthOf(yield* store.claim(at, plus(at, Duration.minutes(1)), 1000), 300)
    assert.isNull(yield* store.countedAt)
    yield* store.record([{ sub: "user-1", bytes: 1, tasks: 150, countedAt: at, next: at }], at)
    assert.strictEqual(yield* store.countedAt, at)
  }).pipe(Effect.provide(Layer.provideMerge(StoredBytesSql.layer, Database.layer))))
