/** Claims while a snapshot is open. */
import { it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../src/services/signals/Changes.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import { enqueueMany } from "../attack/kit/webhookCrowd.ts"
import { check, type Queue as QueueOf } from "../kit/OpenSnapshot.ts"
import { leases, unlimited } from "../kit/StoredWebhooks.ts"
import { layerFormats } from "../kit/WebhookStoreContract.ts"

type Queue = QueueOf<WebhookStore | TaskStore>

const layerStores = Layer.provide(TaskStoreSql.layer, [layerFormats, Changes.layer, SecureRandom.layerWebCrypto])

const tasks = (count: number, state: string) =>
  `INSERT INTO tasks (uuid, sub, status, run_id, max_execution_time, created_at, deadline_at, completed_at, token_id, assistant_id)
  SELECT gen_random_uuid(), 'user-' || n, ${state}, 'token', 1 FROM generate_series(1, ${count}) AS n`

const webhooks: Queue = {
  add: (count, due) =>
    enqueueMany({ deliveries: count, targets: 10, sub: "user" }).replace(/now\(\) FROM placed/, `${due} FROM placed`),
  leave: [
    `UPDATE webhook_deliveries SET attempts = 1, sending = true, due_at = due_at + interval '35 seconds' WHERE due_at <= now()`,
    `UPDATE webhook_deliveries SET sending = false, due_at = NULL, delivered_at = now() WHERE due_at IS NOT NULL`
  ],
  claim: (at, from) =>
    Effect.flatMap(
      WebhookStore,
      (store) =>
        store.claim({
          at,
          from,
          lostBefore: at,
          limit: 64,
          leases,
          permits: { ...unlimited, ofUser: { total: 64, unproven: 64 } }
        })
    )
}

const queues: Readonly<Record<string, Queue>> = {
  webhooks,
  "stop requests": {
    add: (count, due) =>
      `INSERT INTO core_stops (run_id, task_uuid, reason, due_at)
      SELECT gen_random_uuid(), gen_random_uuid(), 'r', ${due} FROM generate_series(1, ${count})`,
    leave: [
      `UPDATE core_stops SET attempts = 1, due_at = due_at + interval '30 seconds'`,
      `DELETE FROM core_stops`
    ],
    claim: (at, from) => Effect.flatMap(TaskStore, (store) => store.claimStops(at, Duration.seconds(30), 64, from))
  },
  "overdue tasks": {
    add: (count, due) => tasks(count, `'processing', gen_random_uuid(), 60, ${due}, ${due}, NULL`),
    leave: [`UPDATE tasks SET status = 'failed', completed_at = now()`],
    claim: (at, from) => Effect.flatMap(TaskStore, (scans) => scans.overdue(at, 500, from))
  },
  "ended tasks": {
    add: (count, due) => tasks(count, `'completed', gen_random_uuid(), 60, ${due}, ${due}, ${due}`),
    leave: [`DELETE FROM tasks`],
    claim: (at, from) => Effect.flatMap(TaskStore, (retention) => retention.deleteEnded(at, 200, from))
  },
  "idempotency keys": {
    add: (count, due) =>
      `INSERT INTO idempotency_keys (sub, key, fingerprint, task_uuid, expires_at)
      SELECT 'user', gen_random_uuid(), 'f', gen_random_uuid(), ${due} FROM generate_series(1, ${count})`,
    leave: [`DELETE FROM idempotency_keys`],
    claim: (at, from) => Effect.flatMap(TaskStore, (retention) => retention.deleteExpiredKeys(at, 200, from))
  }
}

it.effect.each([
  ...Object.keys(queues).map((name) => [name, 20] as const),
  ["webhooks", 300] as const
])(
  "reads as few pages for %s (%i due) as before many left the queue",
  ([name, fresh]) => check(queues[name]!, layerStores, fresh)
)
