import { layer } from "@effect/vitest"
import { Layer } from "effect"
import * as SchedulesMemory from "../../../src/services/schedules/SchedulesMemory.ts"
import { layerMemory } from "../../kit/StoreLayers.ts"
import { contract } from "./SchedulesContract.ts"

layer(Layer.provideMerge(SchedulesMemory.layer, layerMemory))("schedules in memory", contract)
