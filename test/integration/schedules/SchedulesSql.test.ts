import { layer } from "@effect/vitest"
import { Layer } from "effect"
import * as SchedulesSql from "../../../src/services/schedules/SchedulesSql.ts"
import { layerSql } from "../../kit/StoreLayers.ts"
import { contract } from "../../services/schedules/SchedulesContract.ts"

layer(Layer.provideMerge(SchedulesSql.layer, layerSql))("schedules on Postgres", contract)
