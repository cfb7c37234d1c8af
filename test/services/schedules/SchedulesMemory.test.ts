import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as SchedulesMemory from "../../../src/services/schedules/SchedulesMemory.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import * as TaskStoreMemory from "../../../src/services/store/tasks/TaskStoreMemory.ts"
import { layerFormats } from "../../kit/WebhookStoreContract.ts"
import { contract } from "./SchedulesContract.ts"

layer(
  Layer.mergeAll(
    SchedulesMemory.layer.pipe(
      Layer.provideMerge(TaskStoreMemory.layer),
      Layer.provide([layerFormats, Changes.layer, RevocationRepositoryMemory.layer])
    ),
    SecureRandom.layerWebCrypto
  )
)("schedules in memory", contract)
