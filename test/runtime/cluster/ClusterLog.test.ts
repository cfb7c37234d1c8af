import { assert, it } from "@effect/vitest"
import { Cause, Effect, Logger } from "effect"
import { TestClock } from "effect/testing"
import * as ClusterLog from "../../../src/runtime/cluster/ClusterLog.ts"

it.effect("a repeated message is logged every ten seconds, with its reason and without a stack trace", () => {
  const lines: Array<string> = []
  const collector = Logger.make<unknown, void>(({ cause, message }) => {
    lines.push(`${message}${cause.reasons.length === 0 ? "" : " with a cause"}`)
  })
  const refused = Cause.fail(new Error("no shard", { cause: new Error("connect ECONNREFUSED") }))
  return Effect.gen(function*() {
    for (let second = 0; second < 25; second++) {
      yield* Effect.logWarning("unhealthy", refused)
      yield* TestClock.adjust("1 second")
    }
    yield* Effect.logInfo("recovered")
    assert.deepStrictEqual(lines, [...Array(3).fill("unhealthy: connect ECONNREFUSED"), "recovered"])
  }).pipe(Effect.provideService(Logger.CurrentLoggers, ClusterLog.throttle(new Set([collector]))))
})
