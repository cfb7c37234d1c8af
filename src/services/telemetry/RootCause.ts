import { Predicate } from "effect"

/** The message of the root cause, such as a refused connection or a wrong password. */
export const rootCauseMessage = (error: unknown): string => {
  // Node tries every address of a host, and reports the failures together without a message.
  if (error instanceof AggregateError) return error.errors.map(rootCauseMessage).join("; ")
  const deeper = Predicate.hasProperty(error, "reason")
    ? error.reason
    : Predicate.hasProperty(error, "cause")
    ? error.cause
    : undefined
  if (deeper !== undefined && deeper !== error) return rootCauseMessage(deeper)
  return error instanceof Error ? error.message : String(error)
}
