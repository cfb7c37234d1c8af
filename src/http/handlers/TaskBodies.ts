/** The bodies that REST and RPC take, each with the bounds that are looked at before its items are. */
import { CoreEvent } from "../../domain/CoreProtocol.ts"
import * as Limits from "../../domain/Limits.ts"
import { CreateTaskBody } from "../../domain/TaskRequest.ts"
import { CancelBody, ToolResultsBody } from "../contract/TaskSchemas.ts"

export const createTask = [CreateTaskBody, {
  maxItems: { input: Limits.inputItems, turns: Limits.turns, client_tools: Limits.clientTools }
}] as const

export const toolResults = [ToolResultsBody, { maxItems: { results: Limits.toolCalls } }] as const

export const cancel = [CancelBody, { whenEmpty: {} }] as const

export const coreEvent = [CoreEvent, { maxItems: { tool_calls: Limits.toolCalls } }] as const
