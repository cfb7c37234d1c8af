import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as RecoveryTrialsMemory from "../../../src/services/store/RecoveryTrialsMemory.ts"
import { contract } from "../../kit/RecoveryTrialsContract.ts"

layer(Layer.merge(RecoveryTrialsMemory.layer, SecureRandom.layerWebCrypto))("RecoveryTrials in memory", contract)
