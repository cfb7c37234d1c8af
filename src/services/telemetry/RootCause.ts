import { Predicate } from "effect"
import type { HttpClientError } from "effect/http"

/** The class would import the whole client into the command line. */
const isStatusError = (error: unknown): error is HttpClientError.StatusCodeError =>
  Predicate.isTagged(error, "StatusCodeError")

/** The message of the root cause, such as a refused connection or a wrong password. */
export const rootCauseMessage = (error: unknown): string => {
  // Node tries every address of a host, and reports the failures together without a message.
  if (error instanceof AggregateError) return error.errors.map(rootCauseMessage).join("; ")
  // Its message has the URL with its query, in which operators may put a key.
  if (isStatusError(error)) return `status ${error.response.status}`
  const deeper = Predicate.hasProperty(error, "reason")
    ? error.reason
    : Predicate.hasProperty(error, "cause")
    ? error.cause
    : undefined
  if (deeper !== undefined && deeper !== error) return rootCauseMessage(deeper)
  return error instanceof Error ? error.message : String(error)
}
