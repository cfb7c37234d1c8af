import { layer } from "@effect/vitest"
import { runQueueContract } from "../../../kit/RunQueueContract.ts"
import { layerMemory } from "../../../kit/StoreLayers.ts"
import { contract } from "../../../kit/TaskStoreContract.ts"

layer(layerMemory)("the stores in memory", contract)

layer(layerMemory)("the queue in memory", runQueueContract)
