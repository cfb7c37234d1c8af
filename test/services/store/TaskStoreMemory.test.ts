import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as RecoveryTrialsMemory from "../../../src/services/store/RecoveryTrialsMemory.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/RevocationRepositoryMemory.ts"
import { TaskNotifications } from "../../../src/services/store/TaskNotifications.ts"
import * as TaskStoreMemory from "../../../src/services/store/TaskStoreMemory.ts"
import { contract } from "../../kit/TaskStoreContract.ts"

layer(
  Layer.mergeAll(
    TaskStoreMemory.layer.pipe(Layer.provideMerge([TaskNotifications.layer, RevocationRepositoryMemory.layer])),
    RecoveryTrialsMemory.layer,
    SecureRandom.layerWebCrypto
  )
)("the stores in memory", contract)
