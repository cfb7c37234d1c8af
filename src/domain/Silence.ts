/**
 * Silent runs. A core may declare in its answer to the start of a run for how long its runs are silent at most, because it is idempotent
 * by `run_id` over all its instances. A run that is silent for longer is dispatched again with the same `run_id`: a core that has
 * lost it begins it again.
 */
import { Schema } from "effect"

/** Seconds, as the core declares them. */
export const Declared = Schema.Finite.check(Schema.isBetween({ minimum: 10, maximum: 3600 }))

/** The most seconds between two dispatches of a run, unless its core declared more. */
const maxPause = 600

/** The seconds that a run may be silent after `redispatches` repeated dispatches since its last sign of life. `declared` is what its core declared. */
export const pauseAfter = (declared: number, redispatches: number): number =>
  Math.max(declared, Math.min(declared * 2 ** redispatches, maxPause))
