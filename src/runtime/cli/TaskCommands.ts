/** Commands for tasks: create, rerun, get, list, watch, submit-results, cancel, delete. */
import { Console, Effect, Option, Stream } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { TaskStatus } from "../../domain/Task.ts"
import { describeQueued } from "../../domain/WaitingOn.ts"
import { isTerminal } from "../../http/client/promise/TasksResource.ts"
import type { CreateTask, GetTaskQuery, ListTasksQuery, Task, TaskSummary } from "../../http/client/promise/Types.ts"
import * as Flags from "./Flags.ts"
import { boolean, optionalInt, optionalText, text, uuid } from "./Flags.ts"
import * as Output from "./Output.ts"
import {
  asFailure,
  call,
  connect,
  described,
  failed,
  note,
  print,
  printResult,
  progress,
  root,
  textOf
} from "./Root.ts"
import { uploadFile } from "./UploadCommand.ts"

const labelsOf = (metadata: Task["metadata"] = {}) =>
  Object.entries(metadata).map(([key, value]) => `${key}=${value}`).join(", ")

const rowOf = (
  { created_at, error, metadata, pending_tool_calls = [], status, uuid }: TaskSummary,
  { age }: Output.Output
) => [
  uuid,
  status,
  age(created_at),
  ...(metadata === undefined ? [] : [labelsOf(metadata)]),
  error ?? pending_tool_calls.map(({ name }) => `waits for ${name}`).join(", ")
]

/** The fields that `render` shows in words; all others are JSON. */
const shown: ReadonlySet<string> = new Set<keyof Task>([
  "uuid",
  "status",
  "created_at",
  "completed_at",
  "error",
  "waiting_on",
  "metadata",
  "pending_tool_calls",
  "turn"
])

const render = (task: Task, { age, fields, text }: Output.Output) => {
  const about = fields([
    ["Task", task.uuid],
    ["Status", task.status],
    ["Created", age(task.created_at)],
    ["Ended", task.completed_at === null ? null : age(task.completed_at)],
    ["Error", task.error],
    ["Waits", task.waiting_on?.party === "queue" ? describeQueued(task.waiting_on.position ?? 1) : null],
    ["Metadata", labelsOf(task.metadata) || null],
    ...Object.entries(task).flatMap(([name, value]) => shown.has(name) ? [] : [[name, JSON.stringify(value)] as const]),
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
  yield* Stream.fromAsyncIterable(client.tasks.events(id, { include: "turn" }), asFailure).pipe(
    Stream.tap(Effect.fnUntraced(function*(event) {
      if (json) return yield* Console.log(JSON.stringify(event))
      const { text } = yield* Output.current
      return yield* note(`${event.occurred_at.slice(11, 19)}  ${event.event}  ${text(event.text ?? "")}`.trimEnd())
    })),
    // A past interrupt may have been answered since.
    Stream.takeUntilEffect(({ status }) =>
      status === "interrupted" ? Effect.map(call(({ tasks }) => tasks.get(id)), isWaiting) : Effect.succeed(false)
    ),
    Stream.runDrain
  )
  const task = yield* call((client) => client.tasks.get(id))
  yield* print(task, render)
  if (isWaiting(task)) yield* progress(`Continue it with: async-task-service submit-results ${id} 'CALL=RESULT'`)
  if (isTerminal(task) && task.status !== "completed") return yield* failed(`Task ${task.status}: ${task.error}`)
})

const noInput = "No input: pass a text, --file or an input field in --body"

const create = Command.make(
  "create",
  {
    text: Argument.String("text").pipe(Argument.withDescription("Text input for the assistant"), Argument.variadic()),
    assistant: optionalInt("assistant", "Assistant id (default: 1)").pipe(Flag.withAlias("a")),
    file: Flag.File("file", { mustExist: true }).pipe(
      Flag.withAlias("f"),
      Flag.withDescription("File to upload and attach; repeatable"),
      Flag.atLeast(0)
    ),
    tool: text("tool", "Name of a client tool that the model may call; repeatable").pipe(Flag.atLeast(0)),
    callbackUrl: optionalText("callback-url", "URL that receives webhooks"),
    callbackSecret: optionalText("callback-secret", "Secret that signs the webhooks"),
    maxExecutionTime: optionalInt("max-execution-time", "Time limit of the task in seconds"),
    priority: optionalInt("priority", "Place in the queue while the core has no room: 0 to 5 (default: 5)"),
    metadata: Flags.metadata("Label of the task"),
    body: Flags.body,
    watch: boolean("watch", "Follow the task until it ends or is interrupted").pipe(Flag.withAlias("w"))
  },
  Effect.fnUntraced(
    function*({
      assistant,
      body,
      callbackSecret,
      callbackUrl,
      file,
      maxExecutionTime,
      metadata,
      priority,
      text,
      tool,
      watch
    }) {
      const files = yield* Effect.forEach(file, (path) => uploadFile(path, undefined))
      const texts = text.length === 0 ? [] : [{ type: "text", text: text.join(" ") } as const]
      const input = [...texts, ...files]
      const request: CreateTask = {
        assistant_id: Option.getOrElse(assistant, () => 1),
        input,
        client_tools: tool.length === 0 ? undefined : tool.map((name) => ({ type: "function", name })),
        callback_url: Option.getOrUndefined(callbackUrl),
        callback_secret: Option.getOrUndefined(callbackSecret),
        max_execution_time: Option.getOrUndefined(maxExecutionTime),
        priority: Option.getOrUndefined(priority),
        metadata,
        ...body
      }
      const created = yield* call((client, signal) => client.tasks.create(request, { signal }))
      if (!watch) return yield* print(created, ({ uuid }) => uuid)
      yield* progress(`created  ${created.uuid}`)
      return yield* watchTask(created.uuid)
    }
  )
).pipe(
  Command.validate((
    { assistant, body, callbackSecret, callbackUrl, file, maxExecutionTime, metadata, priority, text, tool }
  ) => {
    const given = [
      ["input", "the text argument", text.length > 0],
      ["input", "--file", file.length > 0],
      ["assistant_id", "--assistant", Option.isSome(assistant)],
      ["client_tools", "--tool", tool.length > 0],
      ["callback_url", "--callback-url", Option.isSome(callbackUrl)],
      ["callback_secret", "--callback-secret", Option.isSome(callbackSecret)],
      ["max_execution_time", "--max-execution-time", Option.isSome(maxExecutionTime)],
      ["priority", "--priority", Option.isSome(priority)],
      ["metadata", "--metadata", Object.keys(metadata).length > 0]
    ] as const
    const twice = given.find(([field, , isGiven]) => isGiven && field in body)
    if (twice !== undefined) {
      return Effect.fail(new CliError.ValidationError({ message: `${twice[0]} is set by both ${twice[1]} and --body` }))
    }
    return text.length + file.length > 0 || "input" in body
      ? Effect.void
      : Effect.fail(new CliError.ValidationError({ message: noInput }))
  }),
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
  { uuid, body: Flags.body },
  Effect.fnUntraced(function*({ body, uuid }) {
    const created = yield* call((client, signal) => client.tasks.rerun(uuid, body, { signal }))
    yield* print(created, ({ uuid }) => uuid)
  })
).pipe(
  described("Run a task again, with fields of --body instead of its own", `rerun $UUID --body '{"llm_model_id": 2}'`)
)

const get = Command.make(
  "get",
  {
    uuid,
    include: optionalText("include", "Further fields, as in request,usage; the service names those that it has")
  },
  ({ include, uuid }) =>
    printResult(
      call((client, signal) => {
        const added = Option.match(include, { onNone: () => [], onSome: (names) => names.split(",") })
        // The service refuses what is none of its names.
        const names = ["metadata", "waiting_on", ...added] as NonNullable<GetTaskQuery["include"]>
        return client.tasks.get(uuid, { include: names, signal })
      }),
      render
    )
).pipe(described("Show a task", "get $UUID --include request"))

/** Prints the tasks of a list, at most `limit`. */
export const printTasks = Effect.fnUntraced(function*(
  limit: number,
  query: Omit<ListTasksQuery, "page" | "per_page" | "include">
) {
  const { tasks } = yield* connect
  const isFiltered = Object.keys(query.metadata ?? {}).length > 0
  const all = tasks.list({
    per_page: Math.min(100, limit),
    ...(isFiltered ? { include: ["metadata"] } : {}),
    ...query
  })
  const found = yield* Stream.fromAsyncIterable(all, asFailure).pipe(Stream.take(limit), Stream.runCollect)
  const header = ["TASK", "STATUS", "CREATED", ...(isFiltered ? ["METADATA"] : []), "DETAILS"]
  yield* print(found, (tasks, output) => output.table(header, tasks.map((task) => rowOf(task, output)), "No tasks."))
})

export const limit = Flags.int("limit", "Maximum number of tasks", 25).pipe(
  Flag.withAlias("n"),
  Flag.filter((limit) => limit >= 1, () => "an integer of at least 1")
)

const list = Command.make("list", {
  status: text("status", `Only tasks with this status: ${TaskStatus.literals.join(", ")}; repeatable`).pipe(
    Flag.withAlias("s"),
    Flag.atLeast(0),
    Flag.mapEffect(Flags.parseEach(
      { option: "status", expected: `one or more of ${TaskStatus.literals.join(",")}`, kind: "flag" },
      (text) => {
        const words = text.split(",")
        const known = TaskStatus.literals.filter((status) => words.includes(status))
        return words.every((word) => known.some((status) => status === word)) ? known : undefined
      }
    ))
  ),
  metadata: Flags.metadata("Only tasks with this label"),
  q: optionalText("q", "Only tasks with this text in their id, metadata or excerpt"),
  assistant: optionalInt("assistant", "Only tasks of this assistant").pipe(Flag.withAlias("a")),
  from: optionalText("from", "Only tasks created at this moment or later, as in 2026-11-27T08:00:00Z"),
  to: optionalText("to", "Only tasks created before this moment"),
  limit
}, ({ assistant, from, limit, metadata, q, status, to }) =>
  printTasks(limit, {
    metadata,
    q: Option.getOrUndefined(q),
    assistant_id: Option.getOrUndefined(assistant),
    from: Option.getOrUndefined(from),
    to: Option.getOrUndefined(to),
    status: status.flat()
  })).pipe(described("List tasks, newest first", "list --status interrupted -n 5"))

const watch = Command.make("watch", { uuid }, ({ uuid }) => watchTask(uuid)).pipe(
  Command.withDescription(
    "Follow a task until it ends or is interrupted; exits with 1 if it failed or was canceled"
  ),
  Command.withExamples([{ command: "async-task-service watch $UUID" }])
)

/** Undefined for a text that is not `call=JSON` or `call=!text`. */
const resultOf = (text: string) => {
  const at = text.indexOf("=")
  if (at < 1) return undefined
  const [tool_call_id, value] = [text.slice(0, at), text.slice(at + 1)]
  if (value.startsWith("!")) return { tool_call_id, output: value.slice(1), is_error: true }
  const output = Flags.jsonOf(value)
  return output === undefined ? undefined : { tool_call_id, output }
}

const submitResults = Command.make(
  "submit-results",
  {
    uuid,
    result: Argument.String("call=result").pipe(
      Argument.withDescription("Call id and its result as JSON, or call=!text to report a tool failure"),
      Argument.variadic({ min: 1 }),
      Argument.mapEffect(Flags.parseEach(
        { option: "call=result", expected: "a call id, = and JSON, or call=!text", kind: "argument" },
        resultOf
      ))
    )
  },
  Effect.fnUntraced(function*({ result, uuid }) {
    const resumed = yield* call((client, signal) => client.tasks.submitToolResults(uuid, result, { signal }))
    yield* print(resumed, ({ status }) => status)
  })
).pipe(
  described(
    "Submit the results of the pending tool calls of a task",
    `submit-results $UUID call_look='{"found": true}'`
  )
)

const cancel = Command.make(
  "cancel",
  {
    uuid: Argument.optional(uuid),
    interrupted: boolean("interrupted", "Cancel all interrupted tasks"),
    reason: optionalText("reason", "With a uuid: reason, which becomes the task's error").pipe(Flag.withAlias("r"))
  },
  Effect.fnUntraced(function*({ reason, uuid }) {
    if (Option.isSome(uuid)) {
      const options = Option.match(reason, { onNone: () => ({}), onSome: (text) => ({ reason: text }) })
      const canceled = yield* call((client, signal) => client.tasks.cancel(uuid.value, { ...options, signal })).pipe(
        Effect.mapError((error) =>
          /^The task is (pending|processing)/.test(error.message)
            ? failed(`${error.message} To end it anyway: async-task-service stop ${uuid.value}`)
            : error
        )
      )
      return yield* print(canceled, ({ status }) => status)
    }
    const canceled = yield* call((client, signal) => client.tasks.cancelInterrupted({ signal }))
    return yield* print(canceled, ({ canceled, uuids }) => [`${canceled} canceled`, ...uuids].join("\n"))
  })
).pipe(
  Command.validate(({ interrupted, reason, uuid }) => {
    const message = interrupted === Option.isSome(uuid)
      ? "Specify either a uuid or --interrupted"
      : interrupted && Option.isSome(reason)
      ? "--reason requires a uuid, not --interrupted"
      : undefined
    return message === undefined ? Effect.void : Effect.fail(new CliError.ValidationError({ message }))
  }),
  described("Cancel one interrupted task or all of them", "cancel $UUID --reason 'No longer needed'")
)

const stop = Command.make(
  "stop",
  { uuid, reason: optionalText("reason", "Reason, which becomes the task's error").pipe(Flag.withAlias("r")) },
  Effect.fnUntraced(function*({ reason, uuid }) {
    const options = Option.match(reason, { onNone: () => ({}), onSome: (text) => ({ reason: text }) })
    yield* print(
      yield* call((client, signal) => client.tasks.stop(uuid, { ...options, signal })),
      ({ status }) => status
    )
  })
).pipe(described("Stop a task that has not ended, also while the core works on it", "stop $UUID"))

const remove = Command.make("delete", { uuid }, ({ uuid }) =>
  Effect.flatMap(
    call((client, signal) => client.tasks.delete(uuid, { signal })),
    () => print({ uuid, deleted: true }, () => "deleted")
  )).pipe(described("Delete a task that has ended, with its webhooks", "delete $UUID"))

export const commands = [
  create,
  rerun,
  get,
  list,
  watch,
  submitResults,
  cancel,
  stop,
  remove
] as const
