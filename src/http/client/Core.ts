/** Exports of `async-task-service-client/core`: a processing core around a function. */
export { outputText } from "../../domain/Turn.ts"
export { type Core, createCore } from "./core/Core.ts"
export type { CoreLog, CoreOptions, Run, RunFiles, StoredItem } from "./core/CoreTypes.ts"
export {
  AssistantNotAvailable,
  Failure,
  InsufficientBalance,
  type Interrupt,
  type InterruptCall,
  RunStopped,
  type UsageReport
} from "./core/Outcome.ts"
export { serveCore, type ServedCore, type ServeOptions } from "./core/Serve.ts"
export type { ClientTool, InputItem, JsonObject, ToolResult, Turn } from "./promise/Types.ts"
