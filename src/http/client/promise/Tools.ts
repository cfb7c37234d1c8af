/** Client tools as functions: their definitions for the model, and the results of its calls. */
import type { CreateTask, Task, ToolCall, ToolResult } from "./Types.ts"

export interface ToolContext {
  readonly task: Task
  readonly call: ToolCall
  readonly signal: AbortSignal | undefined
}

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
  const nested: unknown = tool["function"]
  return tool["name"] ?? (typeof nested === "object" && nested !== null && "name" in nested ? nested.name : undefined)
}

/** Adds a definition of each tool that the request body does not define. */
export const declare = (body: CreateTask, tools: Tools): CreateTask => {
  const declared = body.client_tools ?? []
  const names = new Set(declared.map(nameOf))
  const missing = Object.entries(tools).filter(([name]) => !names.has(name)).map(([name, tool]) => {
    const { description, parameters }: Partial<ToolDefinition> = typeof tool === "function" ? {} : tool
    // The JSON Schema of a caller is any object; the service validates it.
    return {
      type: "function",
      name,
      ...(description === undefined ? {} : { description }),
      ...(parameters === undefined ? {} : { parameters })
    } as Declared[number]
  })
  return missing.length === 0 ? body : { ...body, client_tools: [...declared, ...missing] }
}

const messageOf = (error: unknown) => error instanceof Error ? error.message : String(error)

/** Executes each pending call. An exception becomes an error result, which the model receives. */
export const execute = (
  task: Task,
  tools: Tools,
  signal: AbortSignal | undefined
): Promise<ReadonlyArray<ToolResult>> =>
  Promise.all((task.pending_tool_calls ?? []).map(async (call): Promise<ToolResult> => {
    try {
      const tool = Object.hasOwn(tools, call.name) ? tools[call.name] : undefined
      if (tool === undefined) throw new Error(`There is no tool named ${call.name}`)
      const execute = typeof tool === "function" ? tool : tool.execute
      const output = await execute(call.arguments, { task, call, signal })
      // A tool returns anything that `JSON.stringify` accepts.
      return { tool_call_id: call.id, output: (output ?? null) as ToolResult["output"] }
    } catch (error) {
      signal?.throwIfAborted()
      return { tool_call_id: call.id, output: messageOf(error), is_error: true }
    }
  }))
