import { it } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as SchedulesSql from "../../../src/services/schedules/SchedulesSql.ts"
import { SchedulesStore } from "../../../src/services/schedules/SchedulesStore.ts"
import { check, type Queue } from "../../kit/OpenSnapshot.ts"

const schedules = (count: number, due: string) =>
  `INSERT INTO schedules (id, sub, definition, task, state, next_at, due_at, revision, version, token_id, authorized_at, task_failures,
    token_failures, created_at)
  SELECT gen_random_uuid(), 'user', '{}', '{}', 'active', ${due}, ${due}, 0, 1, 'token', now(), 0, 0, now()
  FROM generate_series(1, ${count})`

const queues: Readonly<Record<string, Queue<SchedulesStore>>> = {
  schedules: {
    add: schedules,
    leave: [`UPDATE schedules SET next_at = now() + interval '1 day', due_at = now() + interval '1 day'`],
    claim: (at, from) => Effect.flatMap(SchedulesStore, (store) => store.due(at, 100, from))
  },
  "next schedule": {
    add: schedules,
    leave: [`UPDATE schedules SET state = 'ended', ended_at = now(), next_at = NULL, due_at = NULL`],
    claim: (_, from) => Effect.flatMap(SchedulesStore, (store) => store.nextDue(from))
  },
  "runs of schedules": {
    add: (count, due) =>
      `WITH made AS (${schedules(count, "now() + interval '1 day'")} RETURNING id)
      INSERT INTO schedule_runs (schedule_id, scheduled_for, outcome, attempt, try_at) SELECT id, ${due}, 'due', 1, ${due} FROM made`,
    leave: [`UPDATE schedule_runs SET outcome = 'created', try_at = NULL`],
    claim: (at, from) => Effect.flatMap(SchedulesStore, (store) => store.takeOver(at, Duration.minutes(1), 100, from))
  }
}

it.effect.each(Object.keys(queues))(
  "reads as few pages for %s as before many left the queue while a snapshot is open",
  (name) => check(queues[name]!, Layer.provide(SchedulesSql.layer, SecureRandom.layerWebCrypto))
)
