/** Exports of `async-task-service/client/effect`: the Effect client, the `HttpApi` behind it, and its errors. */
export { Api } from "../contract/Api.ts"
export * from "../contract/Errors.ts"
export { TaskService, type TaskServiceOptions, type Tool } from "./EffectTaskClient.ts"
