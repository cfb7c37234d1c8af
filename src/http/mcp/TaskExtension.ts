/** The extension `io.modelcontextprotocol/tasks`: `run_assistant` answers with a task at once, which the client polls, answers and cancels. */
import { Duration, Effect, Option } from "effect"
import { fromText } from "../../domain/json/OpaqueJson.ts"
import { RawJson } from "../../domain/json/RawJson.ts"
import { readValid } from "../../domain/json/Reader.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { Caller } from "../../domain/Principal.ts"
import * as StoredRequest from "../../domain/StoredRequest.ts"
import { isTerminal, type Task, type TaskStatus } from "../../domain/Task.ts"
import { format } from "../../domain/Timestamp.ts"
import { readCalls } from "../../domain/ToolCall.ts"
import { FacadeLegs } from "../../services/facades/FacadeLegs.ts"
import { TaskAnswers } from "../../services/mcp/TaskAnswers.ts"
import { Settings } from "../../services/settings/Settings.ts"
import { TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { Turns } from "../../services/tasks/Turns.ts"
import { HomeLinks } from "../Home.ts"
import * as Answers from "./Answers.ts"
import * as Errors from "./Errors.ts"
import { lastLine, makeQueued } from "./Follow.ts"
import { type Message, tasksExtension } from "./Message.ts"
import * as Questions from "./Questions.ts"
import { McpSettings } from "./Settings.ts"

const pollInterval = Duration.seconds(1)

/** A failed task is completed too: the extension has `failed` for errors of JSON-RPC only. */
const statuses: Readonly<Record<TaskStatus, string>> = {
  pending: "working",
  processing: "working",
  interrupted: "working",
  completed: "completed",
  failed: "completed",
  canceled: "cancelled"
}

type Result = { readonly [field: string]: Writable }

const notFound: ReadonlySet<string> = new Set(["TaskNotFound", "TaskBelongsToAnother"])

const refusalOf = (failure: Errors.ToolFailure): Errors.Refused =>
  "_tag" in failure && notFound.has(failure._tag)
    ? Errors.invalidParams(Errors.messageOf(failure), 200)
    : Errors.unavailable(Errors.messageOf(failure))

type Method = (caller: Caller, message: Message) => Effect.Effect<Result, Errors.ToolFailure>

/** The calls of an interrupted task that are yet to be answered, and their forms. */
const makeQuestions = Effect.gen(function*() {
  const store = yield* TaskStore
  const legs = yield* FacadeLegs
  const answers = yield* TaskAnswers

  const formsOf = Effect.fnUntraced(function*({ uuid }: Task) {
    const stored = Option.getOrUndefined(yield* store.storedRequest(uuid))
    const tools = stored && (yield* StoredRequest.read(stored.request)).client_tools
    return Questions.formsOf(tools instanceof RawJson ? readValid(tools.bytes) : tools)
  })

  return Effect.fnUntraced(function*(task: Task) {
    const [leg = 0] = yield* legs.endedBy([{ uuid: task.uuid, revision: task.revision }])
    const answered = yield* answers.find(task.uuid)
    const calls = (yield* readCalls(task.pendingToolCalls)).map((call) => ({ call, key: Questions.keyOf(leg, call) }))
    return { calls, answered, forms: yield* formsOf(task) }
  })
})

type Asked = Effect.Success<ReturnType<Effect.Success<typeof makeQuestions>>>

/** Submits the answers to a task's calls if none is missing, and returns whether none is. Only the first of concurrent requests changes the task. */
const makeSubmit = Effect.gen(function*() {
  const tasks = yield* Tasks
  const answers = yield* TaskAnswers
  return Effect.fnUntraced(function*(caller: Caller, task: Task, { answered, calls }: Asked) {
    // Calls with one id are one question.
    const ids = new Map(calls.map(({ call, key }) => [key, call.id]))
    const results = [...ids.keys()].flatMap((key) => answered.get(key) ?? [])
    if (results.length < ids.size) return false
    const text = fromText(`[${results.join(",")}]`)
    yield* tasks.submitToolResults(caller, task, { ids: [...ids.values()], text }).pipe(
      Effect.catchTag("TaskNotInterrupted", () => Effect.void)
    )
    // The next interruption may have answers already.
    yield* answers.delete(task.uuid, [...ids.keys()])
    return true
  }, Effect.uninterruptible)
})

/** Tasks as the extension has them. */
const makeViews = Effect.gen(function*() {
  const store = yield* TaskStore
  const { retention } = yield* Settings
  const { publicUrl } = yield* McpSettings
  const pathOf = (yield* HomeLinks).find(({ taskPath }) => taskPath !== undefined)?.taskPath
  const read = yield* Answers.makeRead
  const turns = yield* Turns
  const queued = yield* makeQueued

  const baseOf = Effect.fnUntraced(function*(task: Task) {
    const [last] = yield* store.eventsAfter(task.uuid, task.revision - 1, 1)
    return {
      taskId: task.uuid,
      status: statuses[task.status],
      createdAt: format(task.createdAt),
      lastUpdatedAt: format(last?.occurredAt ?? task.createdAt),
      ttlMs: task.maxExecutionTime * 1000 + Duration.toMillis(retention),
      pollIntervalMs: Duration.toMillis(pollInterval)
    }
  })

  /** What a task has beyond that, by its status. */
  const detailOf = Effect.fnUntraced(function*(
    caller: Caller,
    task: Task,
    questions: Asked | undefined,
    hasForms: boolean
  ) {
    if (task.status === "canceled") return task.error === null ? {} : { statusMessage: task.error }
    if (isTerminal(task.status)) {
      const { value } = yield* read(caller, task.uuid)
      // The client of the extension requires the type also here.
      return { result: { resultType: "complete", ...Answers.resultOf(value, task.status === "failed") } }
    }
    const place = yield* queued(task)
    if (place !== undefined) return { statusMessage: place }
    if (questions === undefined) {
      const line = lastLine((yield* turns.textOf(task, task.revision)) ?? "")
      return line === "" ? {} : { statusMessage: line }
    }
    const { answered, calls, forms } = questions
    const open = calls.filter(({ key }) => !answered.has(key)).slice(0, Questions.maxQuestions)
    if (hasForms) {
      const inputRequests = Object.fromEntries(
        open.map(({ call, key }) => [key, Questions.questionOf(call, forms.get(call.name))])
      )
      return { status: "input_required", inputRequests }
    }
    const names = open.map(({ call }) => `${call.name.slice(0, 64)}(…)`).join(", ").slice(0, 1000)
    const page = pathOf === undefined ? "" : `, or open ${publicUrl}${pathOf(task.uuid)}`
    return { statusMessage: `waiting for an answer to ${names}: call answer_task${page}` }
  })

  return { baseOf, detailOf }
})

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const answers = yield* TaskAnswers
  const questionsOf = yield* makeQuestions
  const submit = yield* makeSubmit
  const { baseOf, detailOf } = yield* makeViews

  const created = (caller: Caller, uuid: string) =>
    Effect.map(
      Effect.flatMap(tasks.getOutline(caller.principal, uuid), baseOf),
      (base) => ({ resultType: "task", ...base })
    )

  const askedBy = (task: Task) => task.status === "interrupted" ? questionsOf(task) : Effect.undefined

  const get = Effect.fnUntraced(function*(caller: Caller, { hasForms, name = "" }: Message) {
    let task = yield* tasks.getOutline(caller.principal, name)
    let questions = yield* askedBy(task)
    // The store may have gone away after it stored the last answer and before the answers were submitted.
    if (questions !== undefined && (yield* submit(caller, task, questions))) {
      task = yield* tasks.getOutline(caller.principal, name)
      questions = yield* askedBy(task)
    }
    return { ...(yield* baseOf(task)), ...(yield* detailOf(caller, task, questions, hasForms)) }
  })

  /** Answers that nothing asked for are ignored. */
  const update = Effect.fnUntraced(function*(caller: Caller, { inputResponses, name = "" }: Message) {
    const task = yield* tasks.getOutline(caller.principal, name)
    if (inputResponses === undefined || task.status !== "interrupted") return {}
    const questions = yield* questionsOf(task)
    const { calls, forms } = questions
    const given = yield* Questions.read(inputResponses)
    for (const { call, key } of calls) {
      const answer = given.get(key)
      const result = answer && Questions.resultOf(call, answer, inputResponses.bytes, forms.has(call.name))
      if (result !== undefined) yield* answers.add(task.uuid, key, result)
    }
    yield* submit(caller, task, { ...questions, answered: yield* answers.find(task.uuid) })
    return {}
  }, Effect.uninterruptible)

  const cancel = Effect.fnUntraced(function*({ principal }: Caller, { name = "" }: Message) {
    const head = yield* tasks.getHead(principal, name)
    yield* tasks.withdraw(head, null).pipe(Effect.catchTag("TaskHasEnded", () => Effect.void))
    return {}
  })

  const methods: ReadonlyMap<string, Method> = new Map<string, Method>([
    ["tasks/get", get],
    ["tasks/update", update],
    ["tasks/cancel", cancel]
  ])
  /** The result of a method of the extension; undefined for another method. */
  const answer = (caller: Caller, message: Message): Effect.Effect<Result, Errors.Refused> | undefined => {
    const method = methods.get(message.method)
    if (method === undefined) return undefined
    return message.hasTasks
      ? Effect.mapError(method(caller, message), refusalOf)
      : Effect.fail(Errors.missingCapability(tasksExtension))
  }
  return { answer, created }
})
