/** Pauses and resumes schedules. */
import { Effect } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import { now } from "../../domain/Timestamp.ts"
import { armed, type Schedule } from "./Schedule.ts"
import { makeAuthorize } from "./ScheduleDrafts.ts"
import * as Errors from "./ScheduleErrors.ts"
import { makeChange, type Owned } from "./ScheduleSaving.ts"

export const make = Effect.gen(function*() {
  const authorize = yield* makeAuthorize
  const { change } = yield* makeChange

  const pause = (find: Effect.Effect<Schedule, Owned>, reason: string | null) =>
    change(
      find,
      Effect.fnUntraced(function*(before) {
        if (before.state === "ended") return yield* new Errors.ScheduleHasEnded({})
        if (before.state === "paused") return before
        return {
          ...before,
          state: "paused" as const,
          pausedReason: { type: "manual" as const, message: reason ?? "Paused by its user" },
          nextAt: before.definition.type === "cron" ? null : before.nextAt,
          revision: before.revision + 1
        }
      })
    ).pipe(Effect.catchTags({
      // A pause needs none of these.
      TooManySchedules: Effect.die,
      ScheduleKeyTaken: Effect.die,
      AuthorizationRevoked: Effect.die,
      InvalidSchedule: Effect.die
    }))

  /** A moment of a schedule that fires once and passed meanwhile is fired by the sweep, which knows its window. */
  const resume = (caller: Caller, find: Effect.Effect<Schedule, Owned>) =>
    change(
      find,
      Effect.fnUntraced(function*(before) {
        if (before.state === "ended") return yield* new Errors.ScheduleHasEnded({})
        if (before.state === "active") return before
        const at = yield* now
        const { definition } = before
        const nextAt = definition.type === "cron" ? armed(definition, at) : before.nextAt
        const isOver = nextAt === null
        return {
          ...before,
          state: isOver ? "ended" as const : "active" as const,
          endedAt: isOver ? at : null,
          pausedReason: null,
          nextAt,
          revision: before.revision + 1,
          taskFailures: 0,
          tokenFailures: 0,
          authorization: isOver ? before.authorization : yield* authorize(caller, definition, nextAt)
        }
      })
    )

  return { pause, resume }
})
