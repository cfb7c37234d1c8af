/** The stores of the core on which the contracts run: on a Postgres of their own, and in memory. */
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import * as RevocationRepositorySql from "../../src/services/store/revocations/RevocationRepositorySql.ts"
import * as TaskStoreMemory from "../../src/services/store/tasks/TaskStoreMemory.ts"
import * as TaskStoreSql from "../../src/services/store/tasks/TaskStoreSql.ts"
import * as Database from "./Database.ts"
import { layerFormats } from "./WebhookStoreContract.ts"

export const layerSql = Layer.merge(TaskStoreSql.layer, RevocationRepositorySql.layer).pipe(
  Layer.provide(layerFormats),
  Layer.provideMerge([Database.layer, Changes.layer]),
  Layer.merge(SecureRandom.layerWebCrypto)
)

export const layerMemory = TaskStoreMemory.layer.pipe(
  Layer.provide(layerFormats),
  Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer]),
  Layer.merge(SecureRandom.layerWebCrypto)
)
