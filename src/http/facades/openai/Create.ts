/** `POST /v1/responses`: creates a task, or answers the tool calls of an interrupted one. */
import { Effect } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import * as OpaqueJson from "../../../domain/OpaqueJson.ts"
import type { Caller } from "../../../domain/Principal.ts"
import { now } from "../../../domain/Timestamp.ts"
import { FacadeLegs } from "../../../services/store/FacadeLegs.ts"
import type { IdempotencyClaim } from "../../../services/store/TaskWrites.ts"
import { Tasks } from "../../../services/Tasks.ts"
import { type FacadeModel, Facades, modelOf } from "../Facades.ts"
import * as Conversation from "./Conversation.ts"
import { invalid, modelNotFound } from "./Errors.ts"
import * as Ids from "./Ids.ts"
import * as Items from "./Items.ts"
import type { CreateResponse } from "./Request.ts"
import * as Response from "./Response.ts"
import type { Responses } from "./Responses.ts"

/** Maximum earlier responses that the items of one request refer to. */
const maxReferences = 32

/** Maximum interrupted tasks among which the one is searched that the outputs of a whole history answer. */
const maxCandidates = 100

type Outputs = ReturnType<typeof Conversation.outputsOf>

/** Maximum legs of a task, because each stores its request and output. */
const maxLegs = 1000

interface Creation {
  readonly caller: Caller
  readonly request: CreateResponse
  readonly claim: IdempotencyClaim | undefined
}

/** Stands for the user's message after a history without one at its end. A task has at least one item of input. */
const resumption = JSON.stringify([{ type: "text", text: "Continue." }])

const tooLong = invalid("input", "The conversation is too long.", "context_length_exceeded")

const noOutput = (callId: string) => invalid("input", `No tool output found for function call ${callId}.`)

/** JSON of a `RunRequest`. */
const runRequest = (model: FacadeModel, input: string, turns: ReadonlyArray<string>, tools: string) => {
  const { assistantId, imageGeneratorId, llmModelId } = model
  const ids = `"assistant_id":${assistantId},"llm_model_id":${llmModelId},"image_generator_id":${imageGeneratorId}`
  return `{${ids},"input":${input},"turns":[${turns.join()}],"client_tools":${tools}}`
}

/** Replaces references by the items of earlier responses. `last` is the last response whose calls are referred to. */
const makeResolve = ({ get }: Responses) =>
  Effect.fnUntraced(function*(caller: Caller, history: ReadonlyArray<Items.Entry>) {
    const responses = new Map<string, Response.ResponseObject>()
    const responseOf = Effect.fnUntraced(function*(id: Ids.LegId) {
      const key = Ids.responseId(id)
      const known = responses.get(key)
      if (known !== undefined) return known
      if (responses.size >= maxReferences) return yield* invalid("input", "The items refer to too many responses")
      const found = yield* get(caller, id)
      responses.set(key, found)
      return found
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
      const item = id && (yield* responseOf(id)).output.find((one) => one["id"] === entry.id)
      if (item === undefined) return yield* invalid("input", `Item with id '${entry.id}' not found.`)
      if (item["type"] === "function_call") last = id
      const { entries, size } = parsed.get(entry.id)
        ?? { entries: (yield* Items.parse([item])).history, size: JSON.stringify(item).length }
      parsed.set(entry.id, { entries, size })
      length += size
      if (length > Limits.jsonBodyBytes) return yield* tooLong
      resolved.push(...entries)
    }
    return { history: resolved, last }
  })

/** Submits outputs of tools. The answer is the next leg of the same task. */
const makeAnswer = Effect.fnUntraced(function*({ find }: Responses) {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs

  return Effect.fnUntraced(function*({ caller, claim, request }: Creation, id: Ids.LegId, given: Outputs) {
    const { snapshot, task } = yield* find(caller.principal, id)
    const isPending = snapshot.status === "interrupted"
    // A repeated request is recognized by its key, after it has had its effect.
    if (!isPending && claim === undefined) {
      return yield* invalid("previous_response_id", `Response ${Ids.responseId(id)} awaits no tool outputs.`)
    }
    if (id.leg + 1 >= maxLegs) {
      return yield* invalid("previous_response_id", `A tool loop has at most ${maxLegs} responses.`)
    }
    const pending = new Set(snapshot.toolCalls.map((call) => call.id))
    if (isPending) {
      const answered = new Set(given.map((output) => output.id))
      const missing = [...pending].find((call) => !answered.has(call))
      if (missing !== undefined) return yield* noOutput(missing)
      yield* legs.freeze(id.uuid, id.leg, Response.freeze(snapshot))
    }
    // The others repeat earlier items of the conversation.
    const outputs = given.filter((output) => !isPending || pending.has(output.id))
    yield* tasks.submitToolResults(caller, task, Conversation.resultsOf(outputs), claim)
    const next = { uuid: id.uuid, leg: id.leg + 1 }
    yield* legs.add({ taskId: next.uuid, leg: next.leg, request: request.kept, createdAt: yield* now })
    return { id: next, snapshot: undefined }
  }, Effect.uninterruptible)
})

const makeCreate = Effect.gen(function*() {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs
  const { models, timeLimit } = yield* Facades

  return Effect.fnUntraced(function*({ caller, claim, request }: Creation, earlier: ReadonlyArray<string>) {
    const { conversation: { history, input }, fields, instructions, kept, tools } = request
    const model = modelOf(models, request.model)
    if (model === undefined) return yield* modelNotFound(request.model.slice(0, 64))
    const orphan = Conversation.outputWithoutCall(history)
    if (orphan !== undefined) {
      const call = orphan.id.slice(0, 64)
      return yield* invalid("input", `No tool call found for function call output with call_id ${call}.`)
    }
    const turns = [...(instructions === null ? [] : [instructions]), ...earlier, ...Conversation.messagesOf(history)]
    const run = runRequest(model, input ?? resumption, turns, tools)
    if (run.length > Limits.jsonBodyBytes) {
      return yield* tooLong
    }
    const task = {
      ...fields,
      max_execution_time: request.timeLimit ?? timeLimit,
      callback_format: "openai" as const,
      request: OpaqueJson.fromText(run)
    }
    const { isReplay, uuid } = yield* tasks.create(caller, task, claim)
    const id = { uuid, leg: 0 }
    const createdAt = yield* now
    yield* legs.add({ taskId: uuid, leg: 0, request: kept, createdAt })
    if (!isReplay) return { id, snapshot: Response.created(id, kept, createdAt) }
    // The first request may have been an answer whose task was found by its calls.
    const isAnswer = Conversation.trailingOutputs(request.conversation).length > 0
    const current = isAnswer ? (yield* legs.find(uuid, 0))?.current ?? 0 : 0
    return { id: { uuid, leg: current }, snapshot: undefined }
  }, Effect.uninterruptible)
})

/** Finds the interrupted leg whose pending calls are exactly those that the outputs at the end of the input answer. */
const makeFindAnswered = Effect.fnUntraced(function*(responses: Responses) {
  const tasks = yield* Tasks
  return Effect.fnUntraced(function*(caller: Caller, ids: ReadonlyArray<string>) {
    const wanted = new Set(ids)
    const { sub } = caller.principal
    const { tasks: interrupted } = yield* tasks.list({
      sub,
      statuses: ["interrupted"],
      page: 1,
      perPage: maxCandidates
    })
    const matching = interrupted.filter(({ pendingToolCalls: calls }) =>
      calls?.length === wanted.size && calls.every(({ id }) => wanted.has(id))
    )
    const [found, ...others] = matching
    if (others.length > 0) {
      return yield* invalid("previous_response_id", "Several responses await these tool outputs: name one of them.")
    }
    return found === undefined ? undefined : yield* responses.latest(found.uuid)
  })
})

export const make = Effect.fnUntraced(function*(responses: Responses) {
  const { isLenient } = yield* Facades
  const resolve = makeResolve(responses)
  const answer = yield* makeAnswer(responses)
  const create = yield* makeCreate
  const findAnswered = yield* makeFindAnswered(responses)

  /** The messages of a completed response, which the new one continues. */
  const continued = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { snapshot } = yield* responses.find(caller.principal, id)
    const name = Ids.responseId(id)
    const [call] = snapshot.toolCalls
    if (snapshot.status === "interrupted" && call !== undefined) return yield* noOutput(call.id)
    if (Response.isActive(snapshot)) {
      const message = `Response ${name} has not completed.`
      return yield* invalid("previous_response_id", message, "previous_response_not_completed")
    }
    if (snapshot.status !== "completed") {
      return yield* invalid("previous_response_id", `Response ${name} cannot be continued.`)
    }
    const { messages, text } = snapshot.turn
    const said = messages.length > 0 || text === "" ? messages : [{ role: "assistant", content: text }]
    return said.map((message) => JSON.stringify(message))
  })

  const afterPrevious = Effect.fnUntraced(function*(creation: Creation, previous: string) {
    const id = Ids.parse(previous)
    const notFound = invalid(
      "previous_response_id",
      `Previous response with id '${previous.slice(0, 64)}' not found.`,
      "previous_response_not_found"
    )
    if (id === undefined) return yield* notFound
    const gone = () => Effect.fail(notFound)
    const { hasUserMessage, history } = creation.request.conversation
    const outputs = Conversation.outputsOf(history)
    if (outputs.length > 0 && hasUserMessage) {
      return yield* invalid("input", "Tool outputs continue a response that waits for them. Send messages later.")
    }
    const outcome = Effect.gen(function*() {
      if (outputs.length > 0) return yield* answer(creation, id, outputs)
      return yield* create(creation, yield* continued(creation.caller, id))
    })
    return yield* Effect.catchTags(outcome, { TaskNotFound: gone, TaskBelongsToAnother: gone })
  })

  return Effect.fnUntraced(function*(given: Creation) {
    const { caller, request: { conversation, previous, unsupported } } = given
    if (unsupported !== null && !isLenient) {
      return yield* invalid(unsupported, `This field is not supported: ${unsupported}`, "unsupported_parameter")
    }
    const { history, last } = yield* resolve(caller, conversation.history)
    const creation = { ...given, request: { ...given.request, conversation: { ...conversation, history } } }
    if (previous !== null) return yield* afterPrevious(creation, previous)
    const outputs = Conversation.trailingOutputs(creation.request.conversation)
    if (outputs.length === 0) return yield* create(creation, [])
    const answered = last ?? (yield* findAnswered(caller, outputs.map(({ id }) => id)))
    return yield* answered === undefined ? create(creation, []) : answer(creation, answered, outputs)
  })
})
