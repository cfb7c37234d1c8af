/** Schedules in the test kit: in memory, fired by its clock, with tokens that nobody has to mint. */
import { Effect, Layer, Redacted } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as ScheduleBodies from "../../../http/schedules/ScheduleBodies.ts"
import { SchedulesApi, SchedulesGroup } from "../../../http/schedules/SchedulesApi.ts"
import * as Handlers from "../../../http/schedules/SchedulesHandlers.ts"
import { Firing } from "../../../services/schedules/Firing.ts"
import { RunTokens } from "../../../services/schedules/RunTokens.ts"
import * as ScheduleLink from "../../../services/schedules/ScheduleLink.ts"
import { Schedules } from "../../../services/schedules/Schedules.ts"
import * as SchedulesMemory from "../../../services/schedules/SchedulesMemory.ts"
import { ScheduleWake } from "../../../services/schedules/ScheduleWake.ts"
import { TaskBodies } from "../../../services/schedules/TaskBodies.ts"
import type { TestExtension } from "../../Extension.ts"

/** A signature would be checked outside of the test clock. */
const layerTokens = Layer.succeed(RunTokens, {
  isMinting: true,
  callerFor: ({ authorization: { issuedAt, tokenId }, sub }) =>
    Effect.succeed({ principal: { sub, tokenId, issuedAt }, token: Redacted.make(""), expiresAt: Infinity })
})

const layer = Layer.merge(
  Layer.provide(HttpApiBuilder.layer(SchedulesApi), Handlers.layer),
  Layer.effectDiscard(Firing)
).pipe(
  Layer.provide([Schedules.layer, Firing.layer]),
  Layer.provide([
    SchedulesMemory.layer,
    ScheduleWake.layer,
    layerTokens,
    Layer.succeed(TaskBodies, ScheduleBodies.taskBodies)
  ])
)

export const extension: TestExtension = {
  layer,
  taskLink: Effect.provide(ScheduleLink.make, SchedulesMemory.layer),
  routes: { publicGroup: SchedulesGroup }
}
