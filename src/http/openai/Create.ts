/** `POST /v1/responses`: creates a task, or answers the tool calls of an interrupted one. */
import { Effect } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import { now } from "../../domain/Timestamp.ts"
import { readCalls } from "../../domain/ToolCall.ts"
import { FacadeLegs } from "../../services/facades/FacadeLegs.ts"
import { Memory } from "../../services/limits/Memory.ts"
import { type TaskOutline, TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import * as Continued from "../facades/Continued.ts"
import { hasRun } from "../facades/Following.ts"
import { FacadeSettings } from "../facades/Settings.ts"
import * as Conversation from "./Conversation.ts"
import { invalid } from "./Errors.ts"
import * as Ids from "./Ids.ts"
import * as Items from "./Items.ts"
import * as Prepare from "./Prepare.ts"
import type { Creation } from "./Prepare.ts"
import * as Response from "./Response.ts"
import type { Responses } from "./Responses.ts"
import * as Webhook from "./Webhook.ts"

/** Maximum earlier responses that the items of one request refer to. */
const maxReferences = 32

/** Maximum interrupted tasks among which the one is searched that the outputs of a whole history answer. */
const maxCandidates = 100

type Outputs = ReturnType<typeof Conversation.outputsOf>

/** Maximum legs of a task, because each stores its request and output. */
const maxLegs = 1000

/** Substitutes for unsupported fields. */
const ways: Readonly<Record<string, string>> = {
  conversation: "Send previous_response_id, or the whole history as input.",
  prompt: "Send its text as instructions or input.",
  max_tool_calls: "Omit it, and count the calls in your app.",
  "text.format": "Send json_schema, json_object or text."
}

/** Stands for the user's message after a history without one at its end. A task has at least one item of input. */
const resumption = [{ type: "text", text: "Continue." }]

const tooLong = invalid(
  "input",
  "The conversation is too long. Send its last messages only, and upload files to /v1/files.",
  "context_length_exceeded"
)

const noOutput = (callId: string) => invalid("input", `No tool output found for function call ${callId}.`)

/** Bytes. */
const sizeOf = (item: Response.Item) =>
  item.type === "message" ? item.text.bytes.length : item.name.length + item.arguments.length

/** Replaces references by the items of earlier responses. `last` is the last response whose calls are referred to. */
const makeResolve = ({ get }: Responses) =>
  Effect.fnUntraced(function*(caller: Caller, history: ReadonlyArray<Items.Entry>) {
    const responses = new Map<string, ReadonlyArray<Response.Item>>()
    const responseOf = Effect.fnUntraced(function*(id: Ids.LegId) {
      const key = Ids.responseId(id)
      const known = responses.get(key)
      if (known !== undefined) return known
      if (responses.size >= maxReferences) {
        return yield* invalid(
          "input",
          `The items refer to more than ${maxReferences} responses. Send the items themselves.`
        )
      }
      const { items } = yield* get(caller, id)
      responses.set(key, items)
      return items
    })
    const parsed = new Map<string, { readonly entries: ReadonlyArray<Items.Entry>; readonly size: number }>()
    let last: Ids.LegId | undefined
    let length = 0
    const resolved: Array<Items.Entry> = []
    for (const entry of history) {
      if (entry.kind !== "reference") {
        resolved.push(entry)
        continue
      }
      const id = Ids.parse(entry.id)
      const item = id && (yield* responseOf(id)).find((one) => one.id === entry.id)
      if (item === undefined) {
        return yield* invalid("input", `Item with id '${entry.id}' not found. Send the item itself.`)
      }
      if (item.type === "function_call") last = id
      const { entries, size } = parsed.get(entry.id)
        ?? { entries: (yield* Items.parse([Response.toJson(item)])).history, size: sizeOf(item) }
      parsed.set(entry.id, { entries, size })
      length += size
      if (length > Limits.jsonBodyBytes) return yield* tooLong
      resolved.push(...entries)
    }
    return { history: resolved, last }
  })

/** Submits outputs of tools. The answer is the next leg of the same task. */
const makeAnswer = Effect.fnUntraced(function*({ find, load }: Responses) {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs

  return Effect.fnUntraced(function*({ caller, key, request }: Creation, id: Ids.LegId, given: Outputs) {
    const { snapshot, task } = yield* find(caller.principal, id)
    const isPending = snapshot.status === "interrupted"
    // A repeated request is recognized by its key, after it has had its effect.
    if (!isPending && key === undefined) {
      return yield* invalid(
        "previous_response_id",
        `Response ${Ids.responseId(id)} awaits no tool outputs. Continue the latest response.`
      )
    }
    if (id.leg + 1 >= maxLegs) {
      return yield* invalid("previous_response_id", `A tool loop has at most ${maxLegs} responses. Begin a new one.`)
    }
    const pending = new Set(snapshot.toolCalls.map((call) => call.id))
    if (isPending) {
      const answered = new Set(given.map((output) => output.id))
      const missing = [...pending].find((call) => !answered.has(call))
      if (missing !== undefined) return yield* noOutput(missing)
      const ended = yield* load(caller.principal, id)
      yield* legs.freeze(id.uuid, id.leg, Response.freeze(ended), ended.turn.usage)
    }
    // The others repeat earlier items of the conversation.
    const outputs = given.filter((output) => !isPending || pending.has(output.id))
    yield* tasks.submitToolResults(caller, task, Conversation.resultsOf(outputs), key)
    const next = { uuid: id.uuid, leg: id.leg + 1 }
    yield* legs.add({ taskId: next.uuid, leg: next.leg, request: request.kept, createdAt: yield* now, isStored: true })
    return { id: next, snapshot: undefined }
  }, Effect.uninterruptible)
})

const makeCreate = Effect.gen(function*() {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs
  const requestOf = yield* Continued.make
  const { timeLimit } = yield* FacadeSettings

  return Effect.fnUntraced(
    function*({ caller, key, model, request }: Prepare.Prepared, earlier: TaskOutline | undefined) {
      const { conversation: { history, input }, fields, instructions, kept, options, tools } = request
      const system = instructions === undefined ? [] : [instructions]
      const messages = Conversation.messagesOf(history)
      const run = yield* requestOf(earlier, {
        ...(earlier === undefined ? {} : { instructions }),
        assistant_id: model.assistantId,
        llm_model_id: model.llmModelId,
        image_generator_id: model.imageGeneratorId,
        input: input ?? resumption,
        turns: earlier === undefined ? [...system, ...messages] : messages,
        client_tools: tools,
        ...(options === undefined ? {} : { options })
      })
      if (run === undefined) return yield* tooLong
      const task = {
        ...fields,
        assistantId: model.assistantId,
        maxExecutionTime: request.timeLimit ?? timeLimit,
        callbackFormat: Webhook.name,
        ...run
      }
      const { isReplay, uuid } = yield* tasks.create(caller, task, key)
      const id = { uuid, leg: 0 }
      const createdAt = yield* now
      yield* legs.add({ taskId: uuid, leg: 0, request: kept, createdAt, isStored: request.isStored })
      if (!isReplay) return { id, snapshot: Response.created(id, kept, createdAt) }
      // The first request may have been an answer whose task was found by its calls.
      const isAnswer = Conversation.trailingOutputs(request.conversation).length > 0
      const current = isAnswer ? (yield* legs.find(uuid, 0))?.current ?? 0 : 0
      return { id: { uuid, leg: current }, snapshot: undefined }
    },
    Effect.uninterruptible
  )
})

/** Finds the interrupted leg whose pending calls are exactly those that the outputs at the end of the input answer. */
const makeFindAnswered = Effect.fnUntraced(function*(responses: Responses) {
  const store = yield* TaskStore
  return Effect.fnUntraced(function*(caller: Caller, ids: ReadonlyArray<string>) {
    const wanted = new Set(ids)
    const { sub } = caller.principal
    const { tasks: interrupted } = yield* store.list({
      sub,
      statuses: ["interrupted"],
      page: 1,
      perPage: maxCandidates
    })
    const matching = yield* Effect.filter(
      interrupted,
      ({ pendingToolCalls }) =>
        Effect.map(
          readCalls(pendingToolCalls),
          (calls) => calls.length === wanted.size && calls.every(({ id }) => wanted.has(id))
        )
    )
    const [found, ...others] = matching
    if (others.length > 0) {
      return yield* invalid("previous_response_id", "Several responses await these tool outputs: name one of them.")
    }
    return found === undefined ? undefined : yield* responses.latest(found.uuid)
  })
})

/** The task of a completed response, which the new one continues. */
const makeContinued = (responses: Responses) =>
  Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { snapshot, task } = yield* responses.find(caller.principal, id)
    const name = Ids.responseId(id)
    const [call] = snapshot.toolCalls
    if (snapshot.status === "interrupted" && call !== undefined) return yield* noOutput(call.id)
    if (hasRun(snapshot)) {
      const message = `Response ${name} has not completed. Retrieve it until it has.`
      return yield* invalid("previous_response_id", message, "previous_response_not_completed")
    }
    if (snapshot.status !== "completed") {
      return yield* invalid(
        "previous_response_id",
        `Response ${name} cannot be continued. Send the conversation as input.`
      )
    }
    return task
  })

export const make = Effect.fnUntraced(function*(responses: Responses) {
  const { isLenient } = yield* FacadeSettings
  const resolve = makeResolve(responses)
  const answer = yield* makeAnswer(responses)
  const prepare = yield* Prepare.make
  const createPrepared = yield* makeCreate
  const create = (creation: Creation, earlier: TaskOutline | undefined) =>
    Effect.flatMap(prepare(creation), (prepared) => createPrepared(prepared, earlier))
  const findAnswered = yield* makeFindAnswered(responses)

  const continued = makeContinued(responses)

  const afterPrevious = Effect.fnUntraced(function*(creation: Creation, previous: string) {
    const id = Ids.parse(previous)
    const notFound = invalid(
      "previous_response_id",
      `Previous response with id '${previous.slice(0, 64)}' not found. Send the conversation as input.`,
      "previous_response_not_found"
    )
    if (id === undefined) return yield* notFound
    const gone = () => Effect.fail(notFound)
    const { hasUserMessage, history } = creation.request.conversation
    const outputs = Conversation.outputsOf(history)
    if (outputs.length > 0 && hasUserMessage) {
      return yield* invalid("input", "Tool outputs continue a response that waits for them. Send messages later.")
    }
    const outcome = outputs.length > 0
      ? answer(creation, id, outputs)
      : Effect.flatMap(continued(creation.caller, id), (context) => create(creation, context))
    return yield* Effect.catchTags(outcome, { TaskNotFound: gone, TaskBelongsToAnother: gone })
  })

  const respond = Effect.fnUntraced(function*(given: Creation) {
    const { caller, request: { conversation, previous } } = given
    const { history, last } = yield* resolve(caller, conversation.history)
    const creation = { ...given, request: { ...given.request, conversation: { ...conversation, history } } }
    if (previous !== null) return yield* afterPrevious(creation, previous)
    const outputs = Conversation.trailingOutputs(creation.request.conversation)
    if (outputs.length === 0) return yield* create(creation, undefined)
    const answered = last ?? (yield* findAnswered(caller, outputs.map(({ id }) => id)))
    return yield* answered === undefined ? create(creation, undefined) : answer(creation, answered, outputs)
  })
  const { composed } = yield* Memory

  return Effect.fnUntraced(function*(given: Creation) {
    const { caller, request: { conversation: { history }, unsupported } } = given
    if (unsupported !== null && !isLenient) {
      const message = `This field is not supported: ${unsupported}. ${
        ways[unsupported] ?? ""
      } FACADE_LENIENT=true ignores it.`
      return yield* invalid(unsupported, message, "unsupported_parameter")
    }
    // Requests that refer to earlier items, which may be large. Others wait with their bodies alone.
    if (history.some(({ kind }) => kind === "reference")) {
      yield* composed.take(caller.principal.sub, Limits.jsonBodyBytes)
    }
    return yield* respond(given)
  }, Effect.scoped)
})
