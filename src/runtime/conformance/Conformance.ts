/** Runs the cases sequentially, because they share one user's task limit, and reports each result. */
import { Clock, Effect } from "effect"
import { cases } from "./Cases.ts"
import { type Deployment, makeProbe } from "./Probe.ts"
import { requestCases } from "./RequestCases.ts"

export interface CaseReport {
  readonly section: string
  readonly name: string
  readonly outcome: "passed" | "failed" | "skipped"
  /** The reason of a failure or a skip, null when passed. */
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
    [...cases, ...requestCases],
    Effect.fnUntraced(function*({ name, needs, run, section }) {
      const startedAt = yield* Clock.currentTimeMillis
      const outcome = needs !== undefined && deployment[needs] === undefined
        ? { outcome: "skipped" as const, message: `requires ${flags[needs]}` }
        : yield* run(probe).pipe(
          Effect.match({
            onSuccess: () => ({ outcome: "passed" as const, message: null }),
            onFailure: ({ message }) => ({ outcome: "failed" as const, message })
          })
        )
      const report: CaseReport = {
        section,
        name,
        ...outcome,
        milliseconds: (yield* Clock.currentTimeMillis) - startedAt
      }
      yield* onReport(report)
      return report
    })
  )
})
