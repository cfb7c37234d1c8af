/** Schedules, and how they join the service. */
import { Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { OperatorSchedulesApi, OperatorSchedulesGroup } from "../../../http/schedules/OperatorSchedulesApi.ts"
import * as OperatorHandlers from "../../../http/schedules/OperatorSchedulesHandlers.ts"
import * as ScheduleBodies from "../../../http/schedules/ScheduleBodies.ts"
import { errorCodes, SchedulesApi, SchedulesGroup } from "../../../http/schedules/SchedulesApi.ts"
import { TaskScheduleView } from "../../../http/schedules/ScheduleSchemas.ts"
import * as Handlers from "../../../http/schedules/SchedulesHandlers.ts"
import { SchedulesRpc } from "../../../http/schedules/SchedulesRpc.ts"
import { Firing } from "../../../services/schedules/Firing.ts"
import { RunTokens } from "../../../services/schedules/RunTokens.ts"
import * as ScheduleLink from "../../../services/schedules/ScheduleLink.ts"
import { Schedules } from "../../../services/schedules/Schedules.ts"
import * as SchedulesSql from "../../../services/schedules/SchedulesSql.ts"
import * as ScheduleTables from "../../../services/schedules/ScheduleTables.ts"
import { ScheduleWake } from "../../../services/schedules/ScheduleWake.ts"
import { TaskBodies } from "../../../services/schedules/TaskBodies.ts"
import type { Values } from "../../../services/settings/Setting.ts"
import { type Extension, OwnConnections } from "../../Extension.ts"
import * as FreshTokens from "../../FreshTokens.ts"

/** One instance for REST and RPC, which also fires. */
const layerServices = (values: Values<typeof FreshTokens.settings>) =>
  Layer.merge(Schedules.layer, Layer.effectDiscard(Firing)).pipe(
    Layer.provide(Firing.layer),
    Layer.provideMerge(SchedulesSql.layer),
    Layer.provide([
      ScheduleWake.layer,
      Layer.provide(RunTokens.layer, FreshTokens.layer(values)),
      Layer.succeed(TaskBodies, ScheduleBodies.taskBodies)
    ])
  )

const load = (values: Values<typeof FreshTokens.settings>) => {
  const services = layerServices(values)
  return {
    upstreams: values.tokenUrl === undefined ? [] : [{ name: "tokens of schedules", url: values.tokenUrl }],
    layer: HttpApiBuilder.layer(SchedulesApi).pipe(Layer.provide(Handlers.layer), Layer.provide(services)),
    forOperators: HttpApiBuilder.layer(OperatorSchedulesApi).pipe(
      Layer.provide(OperatorHandlers.layer),
      Layer.provide(Layer.unwrap(Effect.map(OwnConnections, ({ layer }) => layer(1))))
    ),
    taskLink: Effect.provide(ScheduleLink.make, SchedulesSql.layer),
    // The server finds the handlers in its context by the tags of the calls.
    rpc: Layer.provide(Handlers.layerRpc, services)
  }
}

export const extension: Extension = {
  settings: {},
  load: (read) => load(read(FreshTokens.settings)),
  routes: {
    errorCodes,
    publicGroup: SchedulesGroup,
    documented: { group: OperatorSchedulesGroup },
    screens: "schedules",
    taskField: {
      name: "schedule",
      includes: "`schedule`: `id` and `scheduled_for` of the schedule that made the task, or null.",
      schema: TaskScheduleView,
      parameter: {
        selects: "Only tasks of the schedule with this id: its newest 1,000.",
        schema: { type: "string", format: "uuid" }
      }
    },
    rpc: SchedulesRpc
  },
  tables: ScheduleTables.tables,
  userData: ScheduleTables.userData,
  onRevoked: ScheduleTables.onRevoked
}
