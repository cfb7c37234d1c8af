/** The use cases with all that drives tasks on, over whichever store, core and secrets they are given. */
import { Layer } from "effect"
import { CoreStops } from "./CoreStops.ts"
import * as Retention from "./Retention.ts"
import { TaskActors } from "./TaskActors.ts"
import { Tasks } from "./Tasks.ts"
import { TaskSweeper } from "./TaskSweeper.ts"
import { TaskWatch } from "./TaskWatch.ts"
import { TokenRevocations } from "./TokenRevocations.ts"

export const layerWith = (layerActors: typeof TaskActors.layer) =>
  Layer.mergeAll(Tasks.layer, TaskWatch.layer, Retention.layer).pipe(
    Layer.provideMerge(TaskSweeper.layer),
    Layer.provideMerge(layerActors),
    Layer.provideMerge(CoreStops.layer),
    Layer.provideMerge(TokenRevocations.layer)
  )

export const layer = layerWith(TaskActors.layer)
