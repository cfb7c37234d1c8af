/** Runs the cases one after the other, since they share a user, and reports on each. */
import { Clock, Effect } from "effect"
import { cases } from "./Cases.ts"
import { type Deployment, makeProbe } from "./Probe.ts"

export interface CaseReport {
  readonly section: string
  readonly name: string
  readonly outcome: "passed" | "failed" | "skipped"
  /** Why it failed or was skipped. */
  readonly message: string | null
  readonly milliseconds: number
}

const flags = { otherToken: "--other-token", toolsAssistant: "--tools-assistant" } as const

export const run = Effect.fnUntraced(function*(
  deployment: Deployment,
  onReport: (report: CaseReport) => Effect.Effect<void>
) {
  const probe = yield* makeProbe(deployment)
  return yield* Effect.forEach(
    cases,
    Effect.fnUntraced(function*({ name, needs, run, section }) {
      const begun = yield* Clock.currentTimeMillis
      const outcome = needs !== undefined && deployment[needs] === undefined
        ? { outcome: "skipped" as const, message: `needs ${flags[needs]}` }
        : yield* run(probe).pipe(
          Effect.match({
            onSuccess: () => ({ outcome: "passed" as const, message: null }),
            onFailure: ({ message }) => ({ outcome: "failed" as const, message })
          })
        )
      const report: CaseReport = { section, name, ...outcome, milliseconds: (yield* Clock.currentTimeMillis) - begun }
      yield* onReport(report)
      return report
    })
  )
})
