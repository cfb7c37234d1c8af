/** Client tools as functions: their definitions for the model, and the results of its calls. */
import { aborted } from "./Transport.ts"
import type { ClientTool, CreateTask, Json, Task, ToolCall, ToolResult } from "./Types.ts"

export interface ToolContext {
  readonly task: Task
  readonly call: ToolCall
  /** Aborts when `run` does. `run` does not wait for a tool that ignores it. */
  readonly signal: AbortSignal | undefined
}

/** Returns the output, which must serialize to JSON. An exception becomes an error result, which the model receives. */
// oxlint-disable-next-line typescript/no-explicit-any -- the tool's JSON Schema defines the arguments
export type ToolFunction = (args: any, context: ToolContext) => unknown

export interface ToolDefinition {
  readonly description?: string
  /** JSON Schema of the arguments, an object. */
  readonly parameters?: object
  readonly execute: ToolFunction
}

export type Tools = Readonly<Record<string, ToolFunction | ToolDefinition>>

type Declared = NonNullable<CreateTask["client_tools"]>

const nameOf = (tool: Declared[number]): unknown => {
  const nested: unknown = "function" in tool ? tool["function"] : undefined
  return tool.name ?? (typeof nested === "object" && nested !== null && "name" in nested ? nested.name : undefined)
}

/** Adds a definition of each tool that the request body does not define. */
export const declare = (body: CreateTask, tools: Tools): CreateTask => {
  const declared = body.client_tools ?? []
  const names = new Set(declared.map(nameOf))
  const missing = Object.entries(tools).filter(([name]) => !names.has(name)).map(([name, tool]): ClientTool => {
    const { description, parameters }: Partial<ToolDefinition> = typeof tool === "function" ? {} : tool
    return { type: "function", name, description, parameters }
  })
  return missing.length === 0 ? body : { ...body, client_tools: [...declared, ...missing] }
}

const messageOf = (error: unknown) => error instanceof Error ? error.message : String(error)

/** The value as JSON; throws when it has none, as a `bigint` or a cycle. */
const toJson = (value: unknown): Json => JSON.parse(JSON.stringify(value) ?? "null")

const executeOne = async (task: Task, call: ToolCall, tools: Tools, signal: AbortSignal | undefined) => {
  const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined
  if (tool === undefined) throw new Error(`There is no tool named ${call.name}`)
  const execute = typeof tool === "function" ? tool : tool.execute
  return toJson(await execute(call.arguments, { task, call, signal }))
}

/** Rejects with an `AbortError` as soon as the signal aborts, even while tools run that ignore it. */
const abortable = <A>(promise: Promise<A>, signal: AbortSignal | undefined): Promise<A> => {
  if (signal === undefined) return promise
  return new Promise((resolve, reject) => {
    const abort = () => reject(aborted(signal))
    if (signal.aborted) abort()
    signal.addEventListener("abort", abort, { once: true })
    promise.finally(() => signal.removeEventListener("abort", abort)).then(resolve, reject)
  })
}

/** Executes all pending calls at the same time. */
export const execute = (
  task: Task,
  tools: Tools,
  signal: AbortSignal | undefined
): Promise<ReadonlyArray<ToolResult>> => {
  const results = (task.pending_tool_calls ?? []).map((call) =>
    executeOne(task, call, tools, signal).then(
      (output): ToolResult => ({ tool_call_id: call.id, output }),
      (error: unknown): ToolResult => ({ tool_call_id: call.id, output: messageOf(error), is_error: true })
    )
  )
  return abortable(Promise.all(results), signal)
}
