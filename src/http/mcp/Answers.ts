/** A task as the tools return it. */
import { Effect } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { RawJson } from "../../domain/json/RawJson.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { Caller } from "../../domain/Principal.ts"
import { type Task, TaskStatus } from "../../domain/Task.ts"
import { AssistantBackend, storageBaseOrNone } from "../../services/files/AssistantBackend.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { Turns } from "../../services/tasks/Turns.ts"
import * as TurnReader from "../facades/TurnReader.ts"

/** Characters of a text, and bytes of the pending calls. No model reads more, and the answer contains them twice. */
const maxOutput = 256 * 1024

export const outputSchema = {
  type: "object",
  properties: {
    task_id: { type: "string" },
    status: { type: "string", enum: TaskStatus.literals },
    output: { type: "string", description: "The text of the assistant so far, with links to its files." },
    usage: {
      type: "object",
      properties: {
        input_tokens: { type: "integer" },
        output_tokens: { type: "integer" },
        total_tokens: { type: "integer" }
      }
    },
    error: { type: "string", description: "Why the task failed or was canceled." },
    pending_tool_calls: {
      type: "array",
      description: "The calls of the assistant: answer each by answer_task.",
      items: {
        type: "object",
        properties: { id: { type: "string" }, name: { type: "string" }, arguments: { type: "object" } },
        required: ["id", "name", "arguments"]
      }
    },
    next: { type: "string", description: "The next step." }
  },
  required: ["task_id", "status"]
} as const

const next: Partial<Record<Task["status"], string>> = {
  pending: "Call get_task with this task_id until the task is completed, failed, canceled or interrupted.",
  interrupted: "Answer every one of pending_tool_calls by answer_task, or call cancel_task."
}

const isCut = "The output is cut: GET /api/tasks/{task_id} returns all of it."
const lacksCalls = "The pending tool calls are too large for a tool: GET /api/tasks/{task_id} returns them."

const textOf = (text: RawJson): string => {
  let begun = ""
  for (const slice of TurnReader.slicesOf(text)) {
    if (begun.length > maxOutput) break
    begun += slice
  }
  return begun.length > maxOutput ? begun.slice(0, maxOutput).replace(/[\uD800-\uDBFF]$/, "") : begun
}

const describe = (task: Task, turn: TurnReader.ReadTurn, storageBase: string): { [field: string]: Writable } => {
  const linked = TurnReader.linkedText(turn, storageBase)
  const output = linked === undefined ? undefined : textOf(linked)
  const calls = task.pendingToolCalls === null ? undefined : OpaqueJson.encode(task.pendingToolCalls)
  const hasCalls = calls !== undefined && calls.length <= maxOutput
  const hints = [
    next[task.status === "processing" ? "pending" : task.status],
    output !== undefined && output.length >= maxOutput ? isCut : undefined,
    calls !== undefined && !hasCalls ? lacksCalls : undefined
  ].filter((hint) => hint !== undefined)
  return {
    task_id: task.uuid,
    status: task.status,
    ...(output === undefined ? {} : { output }),
    ...(turn.usage === null ? {} : {
      usage: {
        input_tokens: turn.usage.input,
        output_tokens: turn.usage.output,
        total_tokens: turn.usage.total
      }
    }),
    ...(task.error === null ? {} : { error: task.error }),
    ...(hasCalls ? { pending_tool_calls: new RawJson(Kind.array, calls) } : {}),
    ...(hints.length === 0 ? {} : { next: hints.join(" ") })
  }
}

/** The result of a tool: an object, and the same as a text for hosts that read only texts. */
export const resultOf = (structuredContent: Writable, isError = false) => ({
  content: [{ type: "text", text: OpaqueJson.toText(OpaqueJson.fromValue(structuredContent)) }],
  structuredContent,
  isError
})

/** The result of a tool that failed. */
export const failed = (text: string) => ({ content: [{ type: "text", text }], isError: true })

/** Returns a function that reads a task of the caller. */
export const makeRead = Effect.gen(function*() {
  const tasks = yield* Tasks
  const backend = yield* AssistantBackend
  const turns = yield* Turns
  return Effect.fnUntraced(function*(caller: Caller, uuid: string) {
    const task = yield* tasks.getOutline(caller.principal, uuid)
    const turn = (yield* turns.read(task, TurnReader.shape, TurnReader.read)) ?? TurnReader.none
    const storageBase = turn.files.length === 0 ? "" : yield* storageBaseOrNone(backend, caller.token)
    return { task, value: describe(task, turn, storageBase) }
  })
})
