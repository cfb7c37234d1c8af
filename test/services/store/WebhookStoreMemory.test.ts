import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as RevocationRepositoryMemory from "../../../src/services/store/RevocationRepositoryMemory.ts"
import { TaskNotifications } from "../../../src/services/store/TaskNotifications.ts"
import * as TaskRepositoryMemory from "../../../src/services/store/TaskRepositoryMemory.ts"
import { redeliveryContract } from "../../kit/RedeliveryContract.ts"
import { contract } from "../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    TaskRepositoryMemory.layer.pipe(Layer.provideMerge([TaskNotifications.layer, RevocationRepositoryMemory.layer])),
    SecureRandom.layerWebCrypto
  )
)("WebhookStore in memory", (it) => {
  contract(it)
  redeliveryContract(it)
})
