/** The tools: each decodes its arguments and calls a use case. */
import { Context, Effect, identity, Layer, Predicate, Schema, SchemaAST, type Scope, Struct } from "effect"
import { Digest } from "effect/crypto"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { type RawJson, Text } from "../../domain/json/RawJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { CreateTaskBody, FileItem, ownFieldsOf, runFieldsOf } from "../../domain/TaskRequest.ts"
import { paginate } from "../../domain/TaskView.ts"
import { PassedResult, toToolResults } from "../../domain/ToolCall.ts"
import { TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import * as Models from "../facades/Models.ts"
import { FacadeSettings } from "../facades/Settings.ts"
import { decodeBytes, kind } from "../handlers/body/JsonBody.ts"
import { fingerprintOf } from "../handlers/IdempotencyKey.ts"
import { outputSchema, resultOf } from "./Answers.ts"
import type { ToolFailure } from "./Errors.ts"

/** A task that the answer follows. */
export interface Followed {
  readonly _tag: "Task"
  readonly uuid: string
  /** Seconds; undefined for the usual time. */
  readonly seconds: number | undefined
  /** True if the tool is a failure when the task is. */
  readonly isRun: boolean
  /** True if the task ends with a client that leaves. */
  readonly isBound: boolean
}

/** The result of a tool. */
export type Outcome =
  | { readonly _tag: "Result"; readonly result: { readonly [field: string]: Writable } }
  | Followed

export interface Tool {
  readonly name: string
  /** The tool as `tools/list` has it. */
  readonly listed: Writable
  readonly call: (
    caller: Caller,
    args: RawJson | undefined
  ) => Effect.Effect<Outcome, ToolFailure, Scope.Scope>
}

type Properties = { readonly [name: string]: { readonly [keyword: string]: Writable } }

interface Description {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly properties: Properties
  readonly annotations: { readonly [hint: string]: boolean }
  readonly output?: Writable
}

const noArguments = OpaqueJson.encode("{}")

/** The arguments that the listed tool requires and those that the schema does are the same. */
const makeTool = <A, E extends ToolFailure>(
  schema: Schema.Decoder<A> & { readonly fields: Schema.Struct.Fields },
  { annotations, description, name, output = outputSchema, properties, title }: Description,
  run: (caller: Caller, args: A) => Effect.Effect<Outcome, E, Scope.Scope>
): Tool => {
  const body = kind(schema, { to: identity })
  const required = Object.keys(schema.fields).filter((field) => !SchemaAST.isOptional(schema.fields[field]!.ast))
  return {
    name,
    listed: {
      name,
      title,
      description,
      inputSchema: { type: "object", properties, ...(required.length === 0 ? {} : { required }) },
      outputSchema: output,
      annotations: { title, ...annotations }
    },
    call: (caller, args) =>
      Effect.flatMap(decodeBytes(body, args?.bytes ?? noArguments), (decoded) => run(caller, decoded))
  }
}

const integer = (minimum: number, maximum: number) =>
  Schema.Int.check(
    Schema.isBetween({ minimum, maximum }, { expected: `an integer between ${minimum} and ${maximum}` })
  )

const atMost = (maximum: number) => Schema.isMaxLength(maximum, { expected: `at most ${maximum} items` })

const visibleAscii = new RegExp(`^[\\x21-\\x7e]{1,${Limits.idempotencyKeyLength}}$`)
const Key = Schema.String.check(
  Schema.isPattern(visibleAscii, { expected: `1 to ${Limits.idempotencyKeyLength} visible ASCII characters` })
)

/**
 * Parts of the JSON Schemas that clients see. Models of some providers refuse a whole request for a keyword that they do not
 * know, so a schema has `type` (one name), `description`, `properties` (not empty), `required`, `items` and `enum` only. The
 * tools accept more than their schemas say.
 */
const text = (description: string) => ({ type: "string", description })
const object = (properties: Properties, required: ReadonlyArray<string>) => ({ type: "object", properties, required })
const objects = (description: string, items: Writable) => ({ type: "array", items, description })

const taskId = { task_id: text("The task, as another tool returned it.") }

/** Seconds. A longer wait is cut. */
const WaitSeconds = { wait_seconds: absentOr(integer(0, Limits.maxExecutionTime), "Seconds to wait.") }
const waitSeconds = {
  wait_seconds: {
    type: "integer",
    description: "Seconds to wait for the end or an interrupt: 25 by default, at most 50, with a progress token 290."
  }
}

const fileSchema = object({
  type: { type: "string", enum: ["file"] },
  file: object({
    id: text("The file's id."),
    name: text("Its name."),
    mime_type: text("Its media type."),
    provider_data: object({ path: text("Its path.") }, ["path"])
  }, ["id", "name", "mime_type"])
}, ["type", "file"])

const toolSchema = object({
  name: text("Letters, digits, _ and -."),
  description: text("The purpose of the function."),
  inputSchema: {
    ...object({ type: { type: "string", enum: ["object"] } }, ["type"]),
    description: "A JSON Schema of the arguments, with type, properties and required."
  }
}, ["name"])

const followed = (uuid: string, seconds: number | null | undefined): Followed => ({
  _tag: "Task",
  uuid,
  seconds: seconds ?? undefined,
  isRun: false,
  isBound: false
})

const RunAssistant = Schema.Struct({
  assistant: Schema.Union([Schema.String, Schema.Int]).annotate({ expected: "a name or a number" }),
  prompt: Text,
  files: absentOr(Schema.Array(FileItem).check(atMost(Limits.inputItems - 1)), "Uploaded files."),
  client_tools: CreateTaskBody.fields.client_tools,
  time_limit: CreateTaskBody.fields.max_execution_time,
  priority: CreateTaskBody.fields.priority,
  idempotency_key: absentOr(Key, "Makes a repetition return the same task."),
  ...WaitSeconds
})

const makeRunAssistant = Effect.gen(function*() {
  const tasks = yield* Tasks
  const models = yield* Models.make
  const digest = yield* Digest.Digest
  const { timeLimit } = yield* FacadeSettings
  const description = {
    name: "run_assistant",
    title: "Run an assistant",
    description: "Runs an assistant in the background as a task, waits a while for its result, and returns the task.",
    properties: {
      assistant: text("The assistant: its name, or its number."),
      prompt: text("The request to the assistant."),
      files: objects("Files, each as POST /api/files returned it.", fileSchema),
      client_tools: objects("Functions that the assistant may ask you to run.", toolSchema),
      time_limit: { type: "integer", description: `Seconds after which the task fails. ${timeLimit} by default.` },
      priority: {
        type: "integer",
        description: "Place in the queue while there is no room: 0 to 5, which is the default. A higher one goes first."
      },
      idempotency_key: text("Makes a repetition of this call return the same task, which survives a disconnect."),
      ...waitSeconds
    },
    annotations: { destructiveHint: false, openWorldHint: true }
  }
  return makeTool(
    RunAssistant,
    description,
    Effect.fnUntraced(function*(caller, { assistant, files, idempotency_key: key, prompt, ...given }) {
      const { assistantId, imageGeneratorId, llmModelId } = yield* models.find(caller, String(assistant))
      const maxExecutionTime = given.time_limit ?? timeLimit
      const request = OpaqueJson.fromValue(runFieldsOf({
        assistant_id: assistantId,
        llm_model_id: llmModelId,
        image_generator_id: imageGeneratorId,
        input: [{ type: "text", text: prompt }, ...(files ?? [])],
        client_tools: given.client_tools
      }))
      const { priority } = given
      const operation = `MCP run_assistant ${maxExecutionTime}${Predicate.isNullish(priority) ? "" : ` ${priority}`}`
      const fingerprint = fingerprintOf(digest, operation, OpaqueJson.encode(request))
      const requestKey = Predicate.isNullish(key) ? undefined : { value: key, fingerprint: yield* fingerprint }
      const task = { ...ownFieldsOf({ priority }), assistantId, maxExecutionTime, request }
      const { uuid } = yield* tasks.create(caller, task, requestKey)
      return { ...followed(uuid, given.wait_seconds), isRun: true, isBound: requestKey === undefined }
    })
  )
})

const getTask = makeTool(Schema.Struct({ task_id: Schema.String, ...WaitSeconds }), {
  name: "get_task",
  title: "Get a task",
  description: "Waits a while for the end or an interrupt of a task, and returns the task.",
  properties: { ...taskId, ...waitSeconds },
  annotations: { readOnlyHint: true }
}, (_, { task_id, wait_seconds }) => Effect.succeed(followed(task_id, wait_seconds)))

const AnswerTask = Schema.Struct({
  task_id: Schema.String,
  results: Schema.Array(PassedResult).check(atMost(Limits.toolCalls))
})

const makeAnswerTask = Effect.map(Tasks, (tasks) =>
  makeTool(
    AnswerTask,
    {
      name: "answer_task",
      title: "Answer a task",
      description: "Answers the pending tool calls of an interrupted task, which then continues.",
      properties: {
        ...taskId,
        results: objects(
          "One result for each of pending_tool_calls.",
          object({
            tool_call_id: text("The id of the call."),
            output: text("The result of the tool: a text, or JSON."),
            is_error: { type: "boolean", description: "True if the tool failed." }
          }, ["tool_call_id", "output"])
        )
      },
      annotations: { destructiveHint: false, openWorldHint: true }
    },
    Effect.fnUntraced(function*(caller, { results, task_id }) {
      const task = yield* tasks.getOutline(caller.principal, task_id)
      yield* tasks.submitToolResults(caller, task, toToolResults(results))
      return followed(task_id, 0)
    })
  ))

const CancelTask = Schema.Struct({
  task_id: Schema.String,
  reason: absentOr(Schema.String.check(isAtMostCharacters(Limits.cancelReasonLength)), "Becomes the error.")
})

const makeCancelTask = Effect.map(Tasks, (tasks) =>
  makeTool(
    CancelTask,
    {
      name: "cancel_task",
      title: "Cancel a task",
      description: "Cancels a task that has not ended.",
      properties: { ...taskId, reason: text("Becomes the task's error.") },
      annotations: { destructiveHint: true, openWorldHint: false }
    },
    Effect.fnUntraced(function*(caller, { reason, task_id }) {
      yield* tasks.withdraw(yield* tasks.getHead(caller.principal, task_id), reason ?? null)
      return followed(task_id, 0)
    })
  ))

const ListTasks = Schema.Struct({
  status: absentOr(TaskStatus, "Only tasks of this status."),
  page: absentOr(integer(1, Number.MAX_SAFE_INTEGER), "The page.")
})

const listSchema = {
  type: "object",
  properties: {
    tasks: objects(
      "The tasks of the page.",
      object({
        task_id: taskId.task_id,
        created_at: text("When it was created."),
        ...Struct.pick(outputSchema.properties, ["status", "error"])
      }, ["task_id", "status"])
    ),
    page: { type: "integer" },
    last_page: { type: "integer" },
    total: { type: "integer" }
  },
  required: ["tasks", "page", "last_page", "total"]
}

const makeListTasks = Effect.map(TaskStore, ({ list }) =>
  makeTool(
    ListTasks,
    {
      name: "list_tasks",
      title: "List tasks",
      description: "Lists the user's tasks, newest first.",
      properties: {
        status: { type: "string", enum: TaskStatus.literals, description: "Only tasks of this status." },
        page: { type: "integer", description: "The page; 1 by default." }
      },
      output: listSchema,
      annotations: { readOnlyHint: true }
    },
    Effect.fnUntraced(function*({ principal: { sub } }, { page, status }) {
      const wanted = { page: page ?? 1, perPage: Limits.perPage.default }
      const found = yield* list({ sub, statuses: Predicate.isNullish(status) ? [] : [status], ...wanted })
      const { data, meta } = paginate(found.tasks, found.total, wanted)
      const tasks = data.map(({ created_at, error, status, uuid }) => ({
        task_id: uuid,
        status,
        created_at,
        ...(error === null ? {} : { error })
      }))
      const { current_page, last_page, total } = meta
      return { _tag: "Result", result: resultOf({ tasks, page: current_page, last_page, total }) }
    })
  ))

/** Makes the tools. The conformance kit needs others. */
export const Make = Context.Reference("async-task-service/http/mcp/Tools/Make", {
  defaultValue: () =>
    Effect.map(
      Effect.all([makeRunAssistant, Effect.succeed(getTask), makeAnswerTask, makeCancelTask, makeListTasks]),
      (tools): ReadonlyArray<Tool> => tools
    )
})

/** The tools by their names. */
export class ToolTable extends Context.Service<ToolTable, ReadonlyMap<string, Tool>>()(
  "async-task-service/http/mcp/Tools/ToolTable"
) {
  static readonly layer = Layer.effect(
    ToolTable,
    Effect.map(Effect.flatten(Make), (tools) => ToolTable.of(new Map(tools.map((tool) => [tool.name, tool]))))
  )
}
