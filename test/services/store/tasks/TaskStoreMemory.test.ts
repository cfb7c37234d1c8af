import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import * as TaskStoreMemory from "../../../../src/services/store/tasks/TaskStoreMemory.ts"
import { contract } from "../../../kit/TaskStoreContract.ts"
import { layerFormats } from "../../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    TaskStoreMemory.layer.pipe(
      Layer.provide(layerFormats),
      Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer])
    ),
    SecureRandom.layerWebCrypto
  )
)("the stores in memory", contract)
