import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as SchedulesSql from "../../../src/services/schedules/SchedulesSql.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import * as TaskStoreSql from "../../../src/services/store/tasks/TaskStoreSql.ts"
import * as Database from "../../kit/Database.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"
import { contract } from "../../services/schedules/SchedulesContract.ts"

layer(
  Layer.mergeAll(
    Layer.mergeAll(TaskStoreSql.layer, SchedulesSql.layer).pipe(
      Layer.provide([layerFormats, Database.layer, Changes.layer])
    ),
    SecureRandom.layerWebCrypto
  )
)("schedules on Postgres", contract)
