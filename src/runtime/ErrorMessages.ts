/** Exit codes and error messages of the service and its command line. */
import { Cause, Exit, Predicate, type Runtime } from "effect"

/** The message of the root cause, such as a refused connection or a wrong password. */
export const rootCauseMessage = (error: unknown): string => {
  const deeper = Predicate.hasProperty(error, "reason")
    ? error.reason
    : Predicate.hasProperty(error, "cause")
    ? error.cause
    : undefined
  if (deeper !== undefined && deeper !== error) return rootCauseMessage(deeper)
  return error instanceof Error ? error.message : String(error)
}

/** Whether an error has this code of the operating system, such as `EEXIST`. */
export const hasCode = (error: unknown, code: string): boolean =>
  Predicate.hasProperty(error, "code") && error.code === code

/** A shutdown by a signal exits with 0. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  onExit(Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause) ? 0 : 1)
