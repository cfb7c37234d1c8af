/** Commands for tasks: create, rerun, get, list, watch, submit-results, cancel. */
import { Console, Effect, Option, Predicate, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { TaskStatus } from "../../domain/Task.ts"
import { isTerminal } from "../../http/client/promise/TasksResource.ts"
import type { CreateTask, Task, TaskSummary } from "../../http/client/promise/Types.ts"
import { boolean, int, optionalInt, optionalText, text, uuid } from "./Flags.ts"
import * as Output from "./Output.ts"
import { asFailure, call, connect, failed, note, parseJson, print, root, textOf } from "./Root.ts"
import { uploadFile } from "./UploadCommand.ts"

const rowOf = ({ created_at, error, pending_tool_calls = [], status, uuid }: TaskSummary, { age }: Output.Output) => [
  uuid,
  status,
  age(created_at),
  error ?? pending_tool_calls.map(({ name }) => `waits for ${name}`).join(", ")
]

const render = (task: Task, { age, fields, text }: Output.Output) => {
  const about = fields([
    ["Task", task.uuid],
    ["Status", task.status],
    ["Created", age(task.created_at)],
    ["Ended", task.completed_at === null ? null : age(task.completed_at)],
    ["Error", task.error],
    ...(task.pending_tool_calls ?? []).map(({ arguments: args, id, name }) =>
      ["Waits for", `${id}: ${name}(${JSON.stringify(args)})`] as const
    )
  ])
  const answer = text(textOf(task.turn))
  return answer === "" ? about : `${about}\n\n${answer}`
}

const isWaiting = ({ status }: Task) => status === "interrupted"

/** Prints all events of a task, past and new, until it ends or is interrupted, and then the task. */
const watchTask = Effect.fnUntraced(function*(id: string) {
  const { json } = yield* root
  const client = yield* connect
  yield* Stream.fromAsyncIterable(client.tasks.events(id), asFailure).pipe(
    Stream.tap(Effect.fnUntraced(function*(event) {
      if (json) return yield* Console.log(JSON.stringify(event))
      const partial = event.event === "progress" ? textOf((yield* call(({ tasks }) => tasks.get(id))).turn) : ""
      const { text } = yield* Output.current
      return yield* note(`${event.occurred_at.slice(11, 19)}  ${event.event}  ${text(partial)}`.trimEnd())
    })),
    // A past interrupt may have been answered since.
    Stream.takeUntilEffect(({ status }) =>
      status === "interrupted" ? Effect.map(call(({ tasks }) => tasks.get(id)), isWaiting) : Effect.succeed(false)
    ),
    Stream.runDrain
  )
  const task = yield* call((client) => client.tasks.get(id))
  yield* print(task, render)
  if (isTerminal(task) && task.status !== "completed") return yield* failed(`Task ${task.status}: ${task.error}`)
})

const bodyFlag = text("body", "Additional request fields, as a JSON object").pipe(Flag.withDefault("{}"))

const metadataFlag = (description: string) =>
  Flag.KeyValuePair("metadata").pipe(
    Flag.withDescription(`${description}: key=value; repeatable`),
    Flag.withDefault({})
  )

const parseBody = Effect.fnUntraced(function*(body: string) {
  const fields: unknown = yield* parseJson("--body", body)
  return Predicate.isObject(fields) ? fields : yield* failed("--body must be a JSON object")
})

const create = Command.make(
  "create",
  {
    text: Argument.String("text").pipe(Argument.withDescription("Text input for the assistant"), Argument.variadic()),
    assistant: int("assistant", "Assistant id", 1).pipe(Flag.withAlias("a")),
    file: Flag.File("file", { mustExist: true }).pipe(
      Flag.withAlias("f"),
      Flag.withDescription("File to upload and attach; repeatable"),
      Flag.atLeast(0)
    ),
    tool: text("tool", "Name of a client tool that the model may call; repeatable").pipe(Flag.atLeast(0)),
    callbackUrl: optionalText("callback-url", "URL that receives webhooks"),
    callbackSecret: optionalText("callback-secret", "Secret that signs the webhooks"),
    maxExecutionTime: optionalInt("max-execution-time", "Time limit of the task in seconds"),
    metadata: metadataFlag("Label of the task"),
    body: bodyFlag,
    watch: boolean("watch", "Follow the task until it ends or is interrupted").pipe(Flag.withAlias("w"))
  },
  Effect.fnUntraced(
    function*({ assistant, body, callbackSecret, callbackUrl, file, maxExecutionTime, metadata, text, tool, watch }) {
      const more = yield* parseBody(body)
      const files = yield* Effect.forEach(file, (path) => uploadFile(path, undefined))
      const texts = text.length === 0 ? [] : [{ type: "text", text: text.join(" ") } as const]
      const input = [...texts, ...files]
      if (input.length === 0 && !("input" in more)) {
        return yield* failed("No input: pass a text, --file or an input field in --body")
      }
      const request: CreateTask = {
        assistant_id: assistant,
        input,
        client_tools: tool.length === 0 ? undefined : tool.map((name) => ({ type: "function", name })),
        callback_url: Option.getOrUndefined(callbackUrl),
        callback_secret: Option.getOrUndefined(callbackSecret),
        max_execution_time: Option.getOrUndefined(maxExecutionTime),
        metadata,
        ...more
      }
      const created = yield* call((client, signal) => client.tasks.create(request, { signal }))
      if (!watch) return yield* print(created, ({ uuid }) => uuid)
      yield* note(`created  ${created.uuid}`)
      return yield* watchTask(created.uuid)
    }
  )
).pipe(
  Command.withDescription("Create a task"),
  Command.withExamples([
    {
      command: "async-task-service create --watch 'What is 6 * 7?'",
      description: "Ask a question and wait for the answer"
    },
    {
      command: "async-task-service create -a 2 --tool look 'call look'",
      description: "Allow the model to call a client tool"
    }
  ])
)

const rerun = Command.make(
  "rerun",
  { uuid, body: bodyFlag },
  Effect.fnUntraced(function*({ body, uuid }) {
    const overrides = yield* parseBody(body)
    const created = yield* call((client, signal) => client.tasks.rerun(uuid, overrides, { signal }))
    yield* print(created, ({ uuid }) => uuid)
  })
).pipe(
  Command.withDescription("Run a task again, with fields of --body instead of its own"),
  Command.withExamples([{ command: `async-task-service rerun $UUID --body '{"llm_model_id": 2}'` }])
)

const get = Command.make(
  "get",
  { uuid },
  ({ uuid }) =>
    Effect.flatMap(call((client, signal) => client.tasks.get(uuid, { signal })), (task) => print(task, render))
).pipe(
  Command.withDescription("Show a task"),
  Command.withExamples([{ command: "async-task-service get $UUID" }])
)

const list = Command.make("list", {
  status: Flag.Literals("status", TaskStatus.literals).pipe(
    Flag.withAlias("s"),
    Flag.withDescription("Only tasks with this status; repeatable"),
    Flag.atLeast(0)
  ),
  metadata: metadataFlag("Only tasks with this label"),
  limit: int("limit", "Maximum number of tasks", 25).pipe(Flag.withAlias("n"))
}, ({ limit, metadata, status }) =>
  Effect.gen(function*() {
    const { tasks } = yield* connect
    const per_page = Math.max(1, Math.min(100, limit))
    const all = tasks.list({ per_page, metadata, ...(status.length === 0 ? {} : { status }) })
    const found = yield* Stream.fromAsyncIterable(all, asFailure).pipe(Stream.take(limit), Stream.runCollect)
    const header = ["TASK", "STATUS", "CREATED", "DETAILS"]
    yield* print(found, (tasks, output) => output.table(header, tasks.map((task) => rowOf(task, output)), "No tasks."))
  })).pipe(
    Command.withDescription("List tasks, newest first"),
    Command.withExamples([{ command: "async-task-service list --status interrupted -n 5" }])
  )

const watch = Command.make("watch", { uuid }, ({ uuid }) => watchTask(uuid)).pipe(
  Command.withDescription(
    "Follow a task until it ends or is interrupted; exits with 1 if it failed or was canceled"
  ),
  Command.withExamples([{ command: "async-task-service watch $UUID" }])
)

const submitResults = (name: "submit-results" | "results") =>
  Command.make(
    name,
    {
      uuid,
      result: Argument.String("call=result").pipe(
        Argument.withDescription("Call id and its result as JSON, or call=!text to report a tool failure"),
        Argument.variadic({ min: 1 })
      )
    },
    Effect.fnUntraced(function*({ result, uuid }) {
      const results = yield* Effect.forEach(
        result,
        Effect.fnUntraced(function*(text) {
          const at = text.indexOf("=")
          if (at < 1) return yield* failed(`${text}: expected call=result`)
          const [tool_call_id, value] = [text.slice(0, at), text.slice(at + 1)]
          if (value.startsWith("!")) return { tool_call_id, output: value.slice(1), is_error: true }
          return { tool_call_id, output: yield* parseJson(`The result of ${tool_call_id}`, value) }
        })
      )
      const resumed = yield* call((client, signal) => client.tasks.submitToolResults(uuid, results, { signal }))
      yield* print(resumed, ({ status }) => status)
    })
  ).pipe(
    Command.withDescription("Submit the results of the pending tool calls of a task"),
    Command.withExamples([{ command: `async-task-service ${name} $UUID call_look='{"found": true}'` }])
  )

const cancel = Command.make(
  "cancel",
  {
    uuid: Argument.optional(uuid),
    interrupted: boolean("interrupted", "Cancel all interrupted tasks"),
    reason: optionalText("reason", "With a uuid: reason, which becomes the task's error").pipe(Flag.withAlias("r"))
  },
  Effect.fnUntraced(function*({ interrupted, reason, uuid }) {
    if (interrupted === Option.isSome(uuid)) return yield* failed("Specify either a uuid or --interrupted")
    if (interrupted && Option.isSome(reason)) return yield* failed("--reason requires a uuid, not --interrupted")
    if (Option.isSome(uuid)) {
      const options = Option.match(reason, { onNone: () => ({}), onSome: (text) => ({ reason: text }) })
      const canceled = yield* call((client, signal) => client.tasks.cancel(uuid.value, { ...options, signal }))
      return yield* print(canceled, ({ status }) => status)
    }
    const canceled = yield* call((client, signal) => client.tasks.cancelInterrupted({ signal }))
    return yield* print(canceled, ({ canceled, uuids }) => [`${canceled} canceled`, ...uuids].join("\n"))
  })
).pipe(
  Command.withDescription("Cancel one interrupted task or all of them"),
  Command.withExamples([{ command: "async-task-service cancel $UUID --reason 'No longer needed'" }])
)

export const commands = [
  create,
  rerun,
  get,
  list,
  watch,
  submitResults("submit-results"),
  // The former name.
  Command.unlisted(submitResults("results")),
  cancel
] as const
