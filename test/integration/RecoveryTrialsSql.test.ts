import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { RunId } from "../../src/domain/Task.ts"
import { RecoveryTrials } from "../../src/services/store/RecoveryTrials.ts"
import * as RecoveryTrialsSql from "../../src/services/store/RecoveryTrialsSql.ts"
import * as Database from "../kit/Database.ts"
import { contract } from "../kit/RecoveryTrialsContract.ts"

layer(Layer.merge(Layer.provideMerge(RecoveryTrialsSql.layer, Database.layer), SecureRandom.layerWebCrypto))(
  "RecoveryTrials on Postgres",
  (it) => {
    contract(it)

    it.effect("accepts the largest batch in one statement, and deletes trials that are older than any task", () =>
      Effect.gen(function*() {
        const trials = yield* RecoveryTrials
        const sql = yield* SqlClient.SqlClient
        const random = yield* SecureRandom.SecureRandom
        const node = yield* random.uuidV4()
        const runs = yield* Effect.forEach(
          Array.from({ length: 1024 }),
          () => Effect.map(random.uuidV7(), (id) => RunId.make(id))
        )
        yield* trials.begin(node, runs, 1024)
        const lost = Effect.flatMap(random.uuidV4(), (other) => trials.lost(other, runs))
        assert.lengthOf(yield* lost, 1024)
        yield* sql`UPDATE recovery_trials SET began_at = began_at - interval '25 hours' WHERE node = ${node}::uuid`
        yield* trials.end(yield* random.uuidV4(), [])
        assert.lengthOf(yield* lost, 0)
      }))
  }
)
