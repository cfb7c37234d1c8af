/** Request and response types, derived from the service's schemas. Type-only imports keep the schemas out of the bundle. */
import type { CreateTaskBody, InputItem as InputItemSchema } from "../../../domain/TaskRequest.ts"
import type { ToolResult as ToolResultSchema } from "../../../domain/ToolCall.ts"
import type { StorageBaseView, UploadedFileView } from "../../contract/FileSchemas.ts"
import type * as Tasks from "../../contract/TaskSchemas.ts"

export type { TaskStatus } from "../../../domain/Task.ts"

export type CreateTask = typeof CreateTaskBody.Encoded
export type InputItem = typeof InputItemSchema.Encoded
export type { ToolCall } from "../../../domain/ToolCall.ts"
export type ToolResult = typeof ToolResultSchema.Encoded
export type Task = typeof Tasks.TaskView.Type
export type TaskSummary = typeof Tasks.TaskSummaryView.Type
export type TaskPageBody = typeof Tasks.TaskPageView.Type
export type TaskEvent = typeof Tasks.WatchedEventView.Type
export type CreatedTask = typeof Tasks.CreatedTaskView.Type
export type ResumedTask = typeof Tasks.ResumedTaskView.Type
export type CanceledTask = typeof Tasks.CanceledTaskView.Type
export type CanceledTasks = typeof Tasks.CanceledTasksView.Type
export type Delivery = typeof Tasks.DeliveryView.Type
export type UploadedFile = typeof UploadedFileView.Type
export type StorageBase = typeof StorageBaseView.Type
