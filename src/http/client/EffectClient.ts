/** What `async-task-service/client/effect` exports: the Effect client, the HttpApi that it speaks, and its errors. */
export { Api } from "../contract/Api.ts"
export * from "../contract/Errors.ts"
export { TaskService, type TaskServiceOptions, type Tool } from "./TaskService.ts"
