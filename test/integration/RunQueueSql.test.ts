import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../src/services/signals/Changes.ts"
import * as RevocationRepositorySql from "../../src/services/store/revocations/RevocationRepositorySql.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import * as Database from "../kit/Database.ts"
import { runQueueContract } from "../kit/RunQueueContract.ts"
import { layerFormats } from "../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    Layer.mergeAll(TaskStoreSql.layer, RevocationRepositorySql.layer)
      .pipe(
        Layer.provide(layerFormats),
        Layer.provideMerge(Database.layer),
        Layer.provideMerge(Changes.layer)
      ),
    SecureRandom.layerWebCrypto
  )
)("the queue on Postgres", runQueueContract)
