import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { Changes } from "../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import * as TaskStoreMemory from "../../../src/services/store/tasks/TaskStoreMemory.ts"
import * as UsageMemory from "../../../src/services/usage/UsageMemory.ts"
import { contract } from "../../kit/usage/UsageContract.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    UsageMemory.layer.pipe(
      Layer.provideMerge(TaskStoreMemory.layer),
      Layer.provide(layerFormats),
      Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer])
    ),
    SecureRandom.layerWebCrypto
  )
)("usage in memory", contract)
