/** Exports of `async-task-service/client`: the Promise client, its errors and its types. */
export { outputText } from "../../domain/Turn.ts"
export * from "./promise/ApiErrors.ts"
export type { FileContent, FilesResource, StoredFile, UploadOptions } from "./promise/FilesResource.ts"
export type * from "./promise/resources.ts"
export type { TaskPage, TaskPages } from "./promise/TaskPages.ts"
export { TaskServiceClient } from "./promise/TaskServiceClient.ts"
export {
  type EventsOptions,
  type GetOptions,
  isTerminal,
  type ListOptions,
  type RunOptions,
  type TasksResource
} from "./promise/TasksResource.ts"
export type { ToolContext, ToolDefinition, ToolFunction, Tools } from "./promise/Tools.ts"
export type { CallOptions, ClientOptions, Retry } from "./promise/Transport.ts"
export type * from "./promise/Types.ts"
