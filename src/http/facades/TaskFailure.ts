/** The failures of a request for a task, which each protocol reports in its own form. */
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
