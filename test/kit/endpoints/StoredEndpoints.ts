/** Endpoints and deliveries that are stored without the service. */
import { Duration, Effect, Latch } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { now, plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import type { AttemptError } from "../../../src/domain/Webhook.ts"
import { type EndpointDelivery, EndpointsStore } from "../../../src/services/endpoints/EndpointsStore.ts"
import { unlimited } from "../StoredWebhooks.ts"

/** An endpoint that is sent to. */
export const endpoint = (id: string) =>
  `INSERT INTO webhook_endpoints (id, url, origin, format, secret, created_at, updated_at)
  VALUES ('${id}', 'https://${id}.example/', 'https://${id}.example', 'thin', 's', now(), now()) ON CONFLICT DO NOTHING`

/** Deliveries of changes at a moment, each with a body of its own. */
export const deliveries = (count: number, happened: string, id = "one", bytes = 2) =>
  `WITH made AS (
    INSERT INTO webhook_endpoint_bodies (task_uuid, revision, format, created_at, bytes, body, sub)
    SELECT gen_random_uuid(), 1, 'thin', ${happened}, ${bytes}, '{}', 'ann' FROM generate_series(1, ${count}) AS n RETURNING *
  )
  INSERT INTO webhook_endpoint_deliveries (endpoint_id, task_uuid, revision, status, format, created_at, due_at, attempts_allowed)
  SELECT '${id}', task_uuid, revision, 'completed', 'thin', created_at, created_at, 14 FROM made`

export const claim = (at: Timestamp, from?: Timestamp) =>
  Effect.flatMap(EndpointsStore, ({ outbox }) =>
    outbox.claim({
      at,
      ...(from === undefined ? {} : { from }),
      lostBefore: at,
      limit: 64,
      leases: [Duration.seconds(30)],
      permits: { ...unlimited, ofProven: 64, ofUnproven: 64, ofUser: { total: 64, unproven: 64 }, unproven: 64 }
    }))

export const claimNow = Effect.flatMap(now, (at) => claim(at))

/** The outcome of an attempt. */
export const ended = ({ attempt, claimedAt, happenedAt, origin, revision, sub, taskId }: EndpointDelivery, outcome: {
  readonly status: number | null
  readonly error: AttemptError | null
  readonly next?: Timestamp
  readonly endedAt?: Timestamp
}) => ({
  taskId,
  revision,
  happenedAt,
  sub,
  origin,
  attempt,
  endedAt: outcome.endedAt ?? plus(claimedAt, "20 millis"),
  duration: 10,
  responseStatus: outcome.status,
  error: outcome.error,
  nextAttemptAt: outcome.next ?? null
})

/** Runs a test with the store, in real time, on tables without rows of another one. */
export const stored = <A, E>(
  test: (
    store: EndpointsStore["Service"],
    run: (statement: string) => Effect.Effect<ReadonlyArray<Record<string, unknown>>>
  ) => Effect.Effect<A, E, EndpointsStore | SqlClient.SqlClient>
) =>
  TestClock.withLive(Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const run = (statement: string) => Effect.orDie(sql.unsafe<Record<string, unknown>>(statement))
    yield* run(
      "TRUNCATE webhook_endpoints, webhook_endpoint_removals, webhook_endpoint_bodies, webhook_endpoint_deliveries"
    )
    yield* run(endpoint("one"))
    const store = yield* EndpointsStore
    // A new row may be older than what claims of the test before have seen.
    store.outbox.committed(Timestamp.make(0))
    yield* test(store, run)
  }))

/** An effect that begins when its latch is opened: outside of the transaction in which that happens. */
export const onSignal = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  const signal = Latch.makeUnsafe()
  return { signal, fiber: yield* Effect.forkChild(Effect.andThen(signal.await, effect)) }
})
