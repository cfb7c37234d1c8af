/** The token of a request, which may expire or be revoked during the request. */
import { Context, Effect } from "effect"
import type { ServiceUnavailable, Unauthorized } from "../contract/Errors.ts"

export const CurrentToken = Context.Reference<{
  /** The user whose requests share the bounds on large bodies. */
  readonly holder: string
  /** Fails when the token is no longer valid. */
  readonly check: Effect.Effect<void, Unauthorized | ServiceUnavailable>
  /** Completes when the token is revoked or has expired. */
  readonly ended: Effect.Effect<void>
}>("async-task-service/http/handlers/CurrentToken", {
  // Internal tokens change only with the process.
  defaultValue: () => ({ holder: "", check: Effect.void, ended: Effect.never })
})

/** Fails as soon as the token of the request is no longer valid. */
export const whileValid = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    CurrentToken,
    ({ check, ended }) => Effect.raceFirst(effect, Effect.andThen(ended, Effect.andThen(check, Effect.never)))
  )
