/** The wrong tokens of operators and other services that a node refuses, on all routes together. */
import { Context, Duration, Effect, Layer } from "effect"
import { monotonicMillis } from "../../domain/Timestamp.ts"

const maximum = 10
const period = Duration.toMillis(Duration.minutes(1))

const make = Effect.sync(() => {
  /** In `monotonicMillis`. */
  let counted: ReadonlyArray<number> = []
  const count = Effect.gen(function*() {
    const at = yield* monotonicMillis
    counted = counted.filter((earlier) => at - earlier < period)
    if (counted.length >= maximum) return true
    counted = [...counted, at]
    if (counted.length === maximum) yield* Effect.logWarning("wrong tokens of operators: ten within a minute")
    return false
  })
  return { count }
})

export class WrongTokens extends Context.Service<WrongTokens, {
  /** Counts one. Returns whether ten came within the last minute, of which the log has a warning. */
  readonly count: Effect.Effect<boolean>
}>()("async-task-service/services/tokens/WrongTokens") {
  static readonly layer = Layer.effect(WrongTokens, make)
}
