/** Exports of `async-task-service/client/effect`: the Effect client, the `HttpApi` behind it, and its errors. */
export { outputText } from "../../domain/Turn.ts"
export type * from "../../domain/Turn.ts"
export { Api } from "../contract/Api.ts"
export * from "../contract/Errors.ts"
export { TaskService, type TaskServiceOptions, type Tool } from "./EffectTaskClient.ts"
