import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { OpaqueJson } from "../../src/domain/OpaqueJson.ts"
import * as RevocationRepositorySql from "../../src/services/store/RevocationRepositorySql.ts"
import { TaskNotifications } from "../../src/services/store/TaskNotifications.ts"
import { TaskRepository } from "../../src/services/store/TaskRepository.ts"
import * as TaskRepositorySql from "../../src/services/store/TaskRepositorySql.ts"
import * as Database from "../kit/Database.ts"
import * as RevocationContract from "../kit/RevocationContract.ts"
import { contract, makeTask } from "../kit/TaskRepositoryContract.ts"

layer(
  Layer.mergeAll(
    Layer.merge(TaskRepositorySql.layer, RevocationRepositorySql.layer).pipe(
      Layer.provide(Database.layer),
      Layer.provideMerge(TaskNotifications.layer)
    ),
    SecureRandom.layerWebCrypto
  )
)(
  "TaskRepository on Postgres",
  (it) => {
    contract(it)
    RevocationContract.contract(it)

    it.effect("creates in one statement have separate outcomes: a failed one affects no other", () =>
      Effect.gen(function*() {
        const repository = yield* TaskRepository
        const taken = yield* makeTask()
        yield* repository.create(taken, 5)
        const huge = OpaqueJson.make(JSON.stringify("x".repeat(100_000)))
        const tasks = yield* Effect.forEach(
          Array.from({ length: 40 }, (_, index) => index),
          (index) => makeTask(index === 20 ? { uuid: taken.uuid } : index === 30 ? { request: huge } : {})
        )
        const exits = yield* Effect.forEach(tasks, (task) => Effect.exit(repository.create(task, 5)), {
          concurrency: "unbounded"
        })
        assert.deepStrictEqual(exits.flatMap((exit, index) => Exit.isFailure(exit) ? [index] : []), [20])
        for (const task of tasks.filter((_, index) => index !== 20)) {
          const found = Option.getOrThrow(yield* repository.get(task.uuid))
          assert.strictEqual(found.sub, task.principal.sub)
          assert.strictEqual(found.runId, task.runId)
        }
      }))
  }
)
