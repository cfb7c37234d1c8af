/** The use cases and the background workers of tasks. They require the store, the core client and the secrets. */
import { Layer } from "effect"
import * as Admissions from "./actors/Admissions.ts"
import { TaskActors } from "./actors/TaskActors.ts"
import { TaskSweeper } from "./actors/TaskSweeper.ts"
import { CoreStops } from "./core/CoreStops.ts"
import { Memory } from "./limits/Memory.ts"
import { LiveReading } from "./live/LiveReading.ts"
import { LiveTexts } from "./live/LiveTexts.ts"
import * as Retention from "./operations/Retention.ts"
import { CoreBusy } from "./queue/CoreBusy.ts"
import { TaskRequests } from "./tasks/TaskRequests.ts"
import { Tasks } from "./tasks/Tasks.ts"
import { TaskWatch } from "./tasks/TaskWatch.ts"
import { Turns } from "./tasks/Turns.ts"
import { TokenRevocations } from "./tokens/TokenRevocations.ts"
import { WebhookDispatcher } from "./webhooks/WebhookDispatcher.ts"
import { Webhooks } from "./webhooks/Webhooks.ts"

export const layerWith = (layerActors: typeof TaskActors.layer) =>
  Layer.mergeAll(Webhooks.layer, LiveReading.layer, TaskRequests.layer, Retention.layer).pipe(
    Layer.provideMerge(TaskWatch.layer),
    Layer.provideMerge(Layer.mergeAll(Tasks.layer, WebhookDispatcher.layer, Admissions.layer)),
    Layer.provideMerge(LiveTexts.layer),
    Layer.provideMerge(Turns.layer),
    Layer.provideMerge(TaskSweeper.layer),
    Layer.provideMerge(layerActors),
    Layer.provideMerge(CoreBusy.layer),
    Layer.provideMerge(CoreStops.layer),
    Layer.provideMerge(TokenRevocations.layer),
    Layer.provideMerge(Memory.layer)
  )

export const layer = layerWith(TaskActors.layer)
