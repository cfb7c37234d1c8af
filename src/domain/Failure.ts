/**
 * The messages in `error` of a failed or withdrawn task. They are part of the API. The text of a backend's response never appears.
 */
import { Duration } from "effect"

export const tokenRevoked = "Token revoked"
export const assistantNotAvailable = "Assistant is not available"
export const insufficientBalance = "Insufficient balance"
export const processingFailed = "Task processing failed"
/** The error of a withdrawn task without a reason. */
export const withdrawn = "canceled"

export const timeLimitExceeded = (seconds: number): string => `Task exceeded maximum execution time (${seconds}s)`

export const notAccepted = (timeout: Duration.Duration): string =>
  `Task was not accepted by the processing core within ${Duration.toSeconds(timeout)} s`
/** The core reported a last event that is larger than `Limits.coreEventBytes`. */
export const resultTooLarge = "The result of the task is too large."
/** The core reported a last event that is not valid. */
export const resultInvalid = "The result of the task is not valid."
/** The request of the task repeats or continues another task, which was deleted before the core received all of it. */
export const predecessorDeleted = "The task that this one repeats or continues was deleted."
