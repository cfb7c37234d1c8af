import { it } from "@effect/vitest"
import { Effect } from "effect"
import * as UsageSql from "../../../src/services/usage/UsageSql.ts"
import { UsageStore } from "../../../src/services/usage/UsageStore.ts"
import { check, type Queue } from "../../kit/OpenSnapshot.ts"

const outbox: Queue<UsageStore> = {
  add: (count, due) =>
    `INSERT INTO usage_outbox (task_uuid, revision, assistant_id, booked_at, active_seconds, sub, model, ended, tokens)
      SELECT gen_random_uuid(), 1, 1, ${due}, 1, 'user', 'm', 'completed', '{1,2,3,0,0}' FROM generate_series(1, ${count})`,
  leave: [`DELETE FROM usage_outbox`],
  claim: (_, from) => Effect.flatMap(UsageStore, (store) => store.book(2000, from))
}

it.effect("booking reads as few pages as before much was booked while a snapshot is open", () =>
  check(outbox, UsageSql.layer))
