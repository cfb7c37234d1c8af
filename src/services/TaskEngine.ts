/** The use cases and the background workers of tasks. The store, the core client and the secrets are provided to it. */
import { Layer } from "effect"
import { CoreStops } from "./CoreStops.ts"
import * as Retention from "./Retention.ts"
import { TaskActors } from "./TaskActors.ts"
import { Tasks } from "./Tasks.ts"
import { TaskSweeper } from "./TaskSweeper.ts"
import { TaskWatch } from "./TaskWatch.ts"
import { TokenRevocations } from "./TokenRevocations.ts"
import { WebhookDispatcher } from "./WebhookDispatcher.ts"
import { Webhooks } from "./Webhooks.ts"
import { WebhookSignatures } from "./WebhookSignatures.ts"

export const layerWith = (layerActors: typeof TaskActors.layer) =>
  Layer.mergeAll(Webhooks.layer, TaskWatch.layer, Retention.layer).pipe(
    Layer.provideMerge(Layer.mergeAll(Tasks.layer, WebhookDispatcher.layer)),
    Layer.provide(WebhookSignatures.layer),
    Layer.provideMerge(TaskSweeper.layer),
    Layer.provideMerge(layerActors),
    Layer.provideMerge(CoreStops.layer),
    Layer.provideMerge(TokenRevocations.layer)
  )

export const layer = layerWith(TaskActors.layer)
