import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as RevocationRepositorySql from "../../../src/services/store/RevocationRepositorySql.ts"
import { TaskNotifications } from "../../../src/services/store/TaskNotifications.ts"
import * as TaskStoreSql from "../../../src/services/store/TaskStoreSql.ts"
import * as UsageSql from "../../../src/services/usage/UsageSql.ts"
import * as Database from "../../kit/Database.ts"
import { contract } from "../../kit/usage/UsageContract.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"

layer(
  Layer.mergeAll(
    Layer.mergeAll(UsageSql.layer, TaskStoreSql.layer, RevocationRepositorySql.layer).pipe(
      Layer.provide(layerFormats),
      Layer.provideMerge(Database.layer),
      Layer.provideMerge(TaskNotifications.layer)
    ),
    SecureRandom.layerWebCrypto
  )
)("usage on Postgres", contract)
