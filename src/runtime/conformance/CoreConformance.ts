/** Runs the cases of a core one after the other, and reports each result. */
import { Clock, Effect } from "effect"
import { cases } from "./CoreCases.ts"
import * as CoreKit from "./CoreKit.ts"

export interface CaseReport {
  readonly name: string
  readonly outcome: "passed" | "failed" | "skipped"
  /** The reason of a failure or a skip, null when passed. */
  readonly message: string | null
  readonly milliseconds: number
}

const outcomeOf = (problem: string | undefined): Pick<CaseReport, "outcome" | "message"> =>
  problem === undefined ? { outcome: "passed", message: null } : { outcome: "failed", message: problem }

export const run = Effect.fnUntraced(function*(
  core: CoreKit.CoreUnderTest,
  onReport: (report: CaseReport) => Effect.Effect<void>
) {
  const kit = yield* CoreKit.make(core)
  return yield* Effect.forEach(
    cases,
    Effect.fnUntraced(function*({ name, needsTools = false, run: runCase }) {
      const startedAt = yield* Clock.currentTimeMillis
      kit.problems.length = 0
      const skipped: Pick<CaseReport, "outcome" | "message"> = {
        outcome: "skipped",
        message: "requires --tools-assistant"
      }
      const result = needsTools && core.toolsAssistant === undefined ? skipped : yield* runCase(kit).pipe(
        Effect.match({
          onFailure: ({ message }) => outcomeOf(message),
          onSuccess: () => outcomeOf(kit.problems[0])
        })
      )
      const report: CaseReport = {
        name,
        ...result,
        milliseconds: (yield* Clock.currentTimeMillis) - startedAt
      }
      yield* onReport(report)
      return report
    })
  )
}, Effect.scoped)
