/** `POST /v1/responses`: creates a task, or answers the tool calls of an interrupted one. */
import { Effect } from "effect"
import * as Limits from "../../../domain/Limits.ts"
import { fromValue, type JsonObject } from "../../../domain/OpaqueJson.ts"
import type { Caller } from "../../../domain/Principal.ts"
import { type CreateTask, runFieldsOf, taskFieldsOf } from "../../../domain/TaskRequest.ts"
import { now } from "../../../domain/Timestamp.ts"
import { toToolResults } from "../../../domain/ToolCall.ts"
import { FacadeLegs } from "../../../services/store/FacadeLegs.ts"
import type { IdempotencyClaim } from "../../../services/store/TaskWrites.ts"
import { Tasks } from "../../../services/Tasks.ts"
import { Facades, modelOf } from "../Facades.ts"
import * as Conversation from "./Conversation.ts"
import { invalid, modelNotFound } from "./Errors.ts"
import * as Ids from "./Ids.ts"
import * as Request from "./Request.ts"
import * as Response from "./Response.ts"
import type { Responses } from "./Responses.ts"

/** Maximum earlier responses that the items of one request refer to. */
const maxReferences = 32

/** Maximum interrupted tasks among which the one is searched that the outputs of a whole history answer. */
const maxCandidates = 100

interface Asked {
  readonly caller: Caller
  readonly body: Request.CreateResponseBody
  readonly items: ReadonlyArray<Request.Item>
  readonly claim: IdempotencyClaim | undefined
}

const noOutput = (callId: string) => invalid("input", `No tool output found for function call ${callId}.`)

/** Replaces references by the items of earlier responses. */
const makeResolve = ({ get }: Responses) =>
  Effect.fnUntraced(function*(caller: Caller, items: ReadonlyArray<Request.Item>) {
    const outputs = new Map<string, ReadonlyArray<JsonObject>>()
    const outputOf = Effect.fnUntraced(function*(id: Ids.LegId) {
      const key = Ids.responseId(id)
      const known = outputs.get(key)
      if (known !== undefined) return known
      if (outputs.size >= maxReferences) return yield* invalid("input", "The items refer to too many responses")
      const { output } = yield* get(caller, id)
      outputs.set(key, output)
      return output
    })
    let last: Ids.LegId | undefined
    const resolved: Array<Request.Item> = []
    for (const item of items) {
      if (item.kind !== "reference") {
        resolved.push(item)
        continue
      }
      const id = Ids.parse(item.id)
      const found = id === undefined ? [] : (yield* outputOf(id)).filter((one) => one["id"] === item.id)
      if (id === undefined || found.length === 0) return yield* invalid("input", `Item with id '${item.id}' not found.`)
      if (found[0]?.["type"] === "function_call") last = id
      resolved.push(...(yield* Request.itemsOf({ input: found })))
    }
    return { items: resolved, last }
  })

/** Submits outputs of tools. The answer is the next leg of the same task. */
const makeAnswer = Effect.fnUntraced(function*({ find }: Responses) {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs

  return Effect.fnUntraced(function*({ body, caller, claim, items }: Asked, id: Ids.LegId) {
    const { snapshot, task } = yield* find(caller.principal, id)
    const outputs = items.flatMap((item) => item.kind === "output" ? [item] : [])
    const isPending = snapshot.status === "interrupted"
    // A repeated request is recognized by its key, after it has had its effect.
    if (!isPending && claim === undefined) {
      return yield* invalid("previous_response_id", `Response ${Ids.responseId(id)} awaits no tool outputs.`)
    }
    const pending = new Set(snapshot.toolCalls.map((call) => call.id))
    const given = new Map(outputs.map((output) => [output.id, output.output]))
    if (isPending) {
      const missing = [...pending].find((call) => !given.has(call))
      if (missing !== undefined) return yield* noOutput(missing)
      yield* legs.freeze(id.uuid, id.leg, Response.freeze(snapshot))
    }
    const results = [...given].filter(([call]) => !isPending || pending.has(call)).map(([call, output]) => ({
      tool_call_id: call,
      output,
      is_error: false
    }))
    yield* tasks.submitToolResults(caller, task, toToolResults(results), claim)
    const next = { uuid: id.uuid, leg: id.leg + 1 }
    const kept = Response.encodeKept(Response.keptOf(body))
    yield* legs.add({ taskId: next.uuid, leg: next.leg, request: kept, createdAt: yield* now })
    return { id: next, snapshot: undefined }
  }, Effect.uninterruptible)
})

const makeCreate = Effect.gen(function*() {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs
  const { models, timeLimit } = yield* Facades

  return Effect.fnUntraced(function*({ body, caller, claim, items }: Asked, earlier: ReadonlyArray<JsonObject>) {
    const model = modelOf(models, body.model)
    if (model === undefined) return yield* modelNotFound(body.model.slice(0, 64))
    const { input, turns } = Conversation.of(items)
    if (input.length > Limits.inputItems) return yield* invalid("input", `Expected at most ${Limits.inputItems} parts`)
    const instructions = body.instructions ? [{ role: "system", content: body.instructions }] : []
    const task: CreateTask = {
      ...taskFieldsOf({ ...body, input, max_execution_time: body.max_execution_time ?? timeLimit }),
      callback_format: "openai",
      request: fromValue(runFieldsOf({
        assistant_id: model.assistantId,
        llm_model_id: model.llmModelId,
        image_generator_id: model.imageGeneratorId,
        input,
        turns: [[...instructions, ...earlier, ...turns]],
        client_tools: yield* Request.toolsOf(body)
      }))
    }
    const { isReplay, uuid } = yield* tasks.create(caller, task, claim)
    const id = { uuid, leg: 0 }
    const kept = Response.keptOf(body)
    const createdAt = yield* now
    yield* legs.add({ taskId: uuid, leg: 0, request: Response.encodeKept(kept), createdAt })
    if (!isReplay) return { id, snapshot: Response.created(id, kept, createdAt) }
    // The first request may have been an answer whose task was found by its calls.
    const current = Conversation.trailingOutputs(items).length > 0 ? (yield* legs.find(uuid, 0))?.current ?? 0 : 0
    return { id: { uuid, leg: current }, snapshot: undefined }
  }, Effect.uninterruptible)
})

export const make = Effect.fnUntraced(function*(responses: Responses) {
  const tasks = yield* Tasks
  const { isLenient } = yield* Facades
  const resolve = makeResolve(responses)
  const answer = yield* makeAnswer(responses)
  const create = yield* makeCreate

  /** The interrupted leg whose pending calls are exactly those that the outputs at the end of the input answer. */
  const findAnswered = Effect.fnUntraced(function*(caller: Caller, ids: ReadonlyArray<string>) {
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
    return messages.length > 0 || text === "" ? messages : [{ role: "assistant", content: text }]
  })

  const afterPrevious = Effect.fnUntraced(function*(asked: Asked, previous: string) {
    const id = Ids.parse(previous)
    const notFound = invalid(
      "previous_response_id",
      `Previous response with id '${previous.slice(0, 64)}' not found.`,
      "previous_response_not_found"
    )
    if (id === undefined) return yield* notFound
    const gone = () => Effect.fail(notFound)
    const isAnswer = asked.items.some(({ kind }) => kind === "output")
    if (isAnswer && asked.items.some((item) => item.kind === "message" && item.role === "user")) {
      return yield* invalid("input", "Tool outputs continue a response that waits for them. Send messages later.")
    }
    const outcome = Effect.gen(function*() {
      if (isAnswer) return yield* answer(asked, id)
      return yield* create(asked, yield* continued(asked.caller, id))
    })
    return yield* Effect.catchTags(outcome, { TaskNotFound: gone, TaskBelongsToAnother: gone })
  })

  return Effect.fnUntraced(
    function*(caller: Caller, body: Request.CreateResponseBody, claim: IdempotencyClaim | undefined) {
      const unsupported = isLenient ? undefined : Request.unsupportedField(body)
      if (unsupported !== undefined) {
        return yield* invalid(unsupported, `This field is not supported: ${unsupported}`, "unsupported_parameter")
      }
      const { items, last } = yield* resolve(caller, yield* Request.itemsOf(body))
      const asked: Asked = { caller, body, items, claim }
      if (body.previous_response_id != null) return yield* afterPrevious(asked, body.previous_response_id)
      const outputs = Conversation.trailingOutputs(items)
      if (outputs.length === 0) return yield* create(asked, [])
      const ids = outputs.map(({ id }) => id)
      const answered = last ?? (yield* findAnswered(caller, ids))
      return answered === undefined
        ? yield* create(asked, [])
        : yield* answer({ ...asked, items: outputs.map((output) => ({ kind: "output", ...output })) }, answered)
    }
  )
})
