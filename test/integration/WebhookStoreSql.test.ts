import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { TaskNotifications } from "../../src/services/store/TaskNotifications.ts"
import * as TaskRepositorySql from "../../src/services/store/TaskRepositorySql.ts"
import * as WebhookStoreSql from "../../src/services/store/WebhookStoreSql.ts"
import * as Database from "../kit/Database.ts"
import { redeliveryContract } from "../kit/RedeliveryContract.ts"
import { contract } from "../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    Layer.mergeAll(TaskRepositorySql.layer, WebhookStoreSql.layer).pipe(
      Layer.provide(Database.layer),
      Layer.provideMerge(TaskNotifications.layer)
    ),
    SecureRandom.layerWebCrypto
  )
)("WebhookStore on Postgres", (it) => {
  contract(it)
  redeliveryContract(it)
})
