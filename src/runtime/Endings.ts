/** How a process of ours ends, and in which words it says why. */
import { Cause, Exit, Predicate, type Runtime } from "effect"

/** The words of the failure at the bottom: a refused connection, a wrong password. */
export const innermost = (error: unknown): string => {
  const deeper = Predicate.hasProperty(error, "reason")
    ? error.reason
    : Predicate.hasProperty(error, "cause")
    ? error.cause
    : undefined
  if (deeper !== undefined && deeper !== error) return innermost(deeper)
  return error instanceof Error ? error.message : String(error)
}

/** A drain that a signal asked for is a success. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
