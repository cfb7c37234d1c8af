import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as TaskRepositoryMemory from "../../src/services/TaskRepositoryMemory.ts"
import { contract } from "../kit/TaskRepositoryContract.ts"

layer(Layer.mergeAll(TaskRepositoryMemory.layer, SecureRandom.layerWebCrypto))("TaskRepository in memory", contract)
