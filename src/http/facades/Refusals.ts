/**
 * Refusals of the façades: what each failure of a request says, and with which status. A protocol adds its codes, and what helps its clients.
 */
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type {
  CreateRefused,
  IdempotencyKeyReused,
  TaskBelongsToAnother,
  TaskHasEnded,
  TaskNotFound,
  TaskNotInterrupted,
  ToolResultsMismatch,
  TooManyActiveTasks,
  TooManyWaiting
} from "../../domain/TaskErrors.ts"
import type { UploadError } from "../../services/files/AssistantBackend.ts"
import {
  PayloadTooLarge,
  RequestTimeout,
  Unauthorized,
  UnsupportedMediaType,
  ValidationFailed
} from "../contract/Errors.ts"
import type { BodyError } from "../handlers/body/BodyReader.ts"
import type { NoSlotLeft } from "../handlers/Uploads.ts"
import type { ModelNotFound } from "./Models.ts"

export type TaskFailure =
  | ModelNotFound
  | StoreUnavailable
  | TaskNotFound
  | TaskBelongsToAnother
  | TaskNotInterrupted
  | TaskHasEnded
  | ToolResultsMismatch
  | CreateRefused
  | TooManyActiveTasks
  | TooManyWaiting
  | IdempotencyKeyReused
  | UploadError
  | NoSlotLeft

export type Failed = TaskFailure["_tag"]

/** For failures whose own message is empty or says too much. */
const messages: Partial<Record<Failed, string>> = {
  BackendRefused: "The assistant backend refused the file.",
  BackendUnauthorized: "The assistant backend refused the token.",
  BackendUnavailable: "The assistant backend did not answer as expected.",
  NoSlotLeft: "Too many uploads at a time. Try again when one has ended.",
  StoreUnavailable: "The service is not available at the moment."
}

export const sentence = (text: string) => /[.!?]$/.test(text) ? text : `${text}.`

/** The message of a failure, and behind it what helps. Unknown tasks and those of another user have the same one, `noTask`. */
export const messageOf = (
  { _tag: tag, message }: TaskFailure,
  noTask: string,
  ways: Partial<Record<Failed, string>>
): string => {
  if (tag === "TaskNotFound" || tag === "TaskBelongsToAnother") return noTask
  const said = messages[tag] ?? message
  const way = ways[tag] ?? (tag === "BackendUnavailable" || tag === "StoreUnavailable" ? "Try again later." : undefined)
  return way === undefined ? said : `${sentence(said)} ${way}`
}

const statuses = [
  [ValidationFailed, 400],
  [Unauthorized, 401],
  [RequestTimeout, 408],
  [PayloadTooLarge, 413],
  [UnsupportedMediaType, 415]
] as const

/** The status of a token that is refused, or of a body that cannot be read. */
export const statusOf = (failure: BodyError) => statuses.find(([Kind]) => failure instanceof Kind)?.[1] ?? 503
