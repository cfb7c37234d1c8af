/** Endpoints and deliveries that are stored without the service. */
import { Duration, Effect } from "effect"
import { now, type Timestamp } from "../../../src/domain/Timestamp.ts"
import { EndpointsStore } from "../../../src/services/endpoints/EndpointsStore.ts"
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
