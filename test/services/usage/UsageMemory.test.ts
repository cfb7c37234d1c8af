import { layer } from "@effect/vitest"
import { Layer } from "effect"
import * as UsageMemory from "../../../src/services/usage/UsageMemory.ts"
import { layerMemory } from "../../kit/StoreLayers.ts"
import { contract } from "../../kit/usage/UsageContract.ts"

layer(UsageMemory.layer.pipe(Layer.provideMerge(layerMemory)))("usage in memory", contract)
