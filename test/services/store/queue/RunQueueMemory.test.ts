import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import * as TaskStoreMemory from "../../../../src/services/store/tasks/TaskStoreMemory.ts"
import { runQueueContract } from "../../../kit/RunQueueContract.ts"
import { layerFormats } from "../../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    TaskStoreMemory.layer.pipe(
      Layer.provide(layerFormats),
      Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer])
    ),
    SecureRandom.layerWebCrypto
  )
)("the queue in memory", runQueueContract)
