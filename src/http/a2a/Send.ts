/** Sends a message: creates a task, or answers an interrupted one. The same message has its effect once. */
import { Effect, Option, Predicate } from "effect"
import { Digest } from "effect/crypto"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { RawJson, stringOf } from "../../domain/json/RawJson.ts"
import { Kind } from "../../domain/json/tables.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { Caller } from "../../domain/Principal.ts"
import { IdempotencyKeyReused } from "../../domain/TaskErrors.ts"
import { ownFieldsOf } from "../../domain/TaskRequest.ts"
import { now } from "../../domain/Timestamp.ts"
import { readCalls, toToolResults } from "../../domain/ToolCall.ts"
import { Contexts } from "../../services/a2a/Contexts.ts"
import { type RequestKey, TaskStore } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { bytesOf, maxFiles } from "../facades/Base64Files.ts"
import * as Continued from "../facades/Continued.ts"
import * as Models from "../facades/Models.ts"
import { FacadeSettings } from "../facades/Settings.ts"
import { fingerprintOf } from "../handlers/IdempotencyKey.ts"
import { Uploads } from "../handlers/Uploads.ts"
import { invalidParams, refused } from "./Errors.ts"
import * as Params from "./Params.ts"

/** A message, and what came with it. */
export interface Sent {
  readonly caller: Caller
  readonly model: string
  readonly params: Params.Send
  /** True if the client runs tools. */
  readonly runsTools: boolean
}

const noLinks = refused(
  "CONTENT_TYPE_NOT_SUPPORTED",
  "Files behind a URL are not fetched. Send their bytes, or upload them to /api/files."
)

const makeInputOf = Effect.gen(function*() {
  const { store } = yield* Uploads

  const upload = (caller: Caller, base64: string | RawJson, name: string | undefined, mediaType: string) => {
    const content = bytesOf(
      stringOf(base64).replaceAll("-", "+").replaceAll("_", "/"),
      () => invalidParams("message.parts", "The bytes of a file are not valid base64")
    )
    return store(caller, { name: name ?? "", mimeType: mediaType, content })
  }

  /** The items of the input of a task. */
  return Effect.fnUntraced(function*(caller: Caller, parts: ReadonlyArray<Params.Part>) {
    const isFile = ({ file, raw }: Params.Part) => Predicate.isNotNullish(raw ?? file?.bytes)
    if (parts.filter(isFile).length > maxFiles) {
      return yield* invalidParams("message.parts", `Expected at most ${maxFiles} files`)
    }
    return yield* Effect.forEach(parts, (part, index) => {
      const { data, file, filename, mediaType, raw, text, url } = part
      const base64 = raw ?? file?.bytes
      if (Predicate.isNotNullish(text)) return Effect.succeed<Writable>({ type: "text", text })
      if (Predicate.isNotNullish(base64)) {
        const type = mediaType || file?.mimeType || ""
        return Effect.map(
          upload(caller, base64, filename ?? file?.name ?? undefined, type),
          ({ file, type }): Writable => ({ type, file })
        )
      }
      if (Predicate.isNotNullish(data)) {
        return Effect.succeed<Writable>({
          type: "text",
          text: OpaqueJson.toText(OpaqueJson.fromValue(data))
        })
      }
      return Effect.fail(
        Predicate.isNotNullish(url ?? file?.uri)
          ? noLinks
          : invalidParams(`message.parts.${index}`, "Expected one of text, raw and data")
      )
    })
  })
})

const makeCreate = Effect.gen(function*() {
  const tasks = yield* Tasks
  const reads = yield* TaskStore
  const contexts = yield* Contexts
  const models = yield* Models.make
  const { timeLimit } = yield* FacadeSettings
  const requestOf = yield* Continued.make
  const inputOf = yield* makeInputOf

  const earlierOf = Effect.fnUntraced(function*({ principal }: Caller, contextId: string | null) {
    const last = contextId === null ? undefined : yield* contexts.lastCompleted(principal.sub, contextId)
    return last === undefined ? undefined : yield* tasks.getOutline(principal, last)
  })

  /** The task that the same message made before. Its files are not uploaded again, and its context may have grown. */
  const madeBefore = Effect.fnUntraced(function*({ principal }: Caller, key: RequestKey) {
    const found = Option.getOrUndefined(yield* reads.usedKey(principal.sub, key.value, yield* now))
    if (found === undefined || found.fingerprint === key.fingerprint) return found?.taskId
    return yield* new IdempotencyKeyReused({})
  })

  return Effect.fnUntraced(function*({ caller, model, params: { message }, runsTools }: Sent, key: RequestKey) {
    const entry = { contextId: message.contextId || null, messageId: message.messageId.slice(0, 255) }
    const made = yield* madeBefore(caller, key)
    if (made !== undefined) {
      // The node may have died between the two.
      yield* contexts.add({ uuid: made, ...entry })
      return made
    }
    const { assistantId, imageGeneratorId, llmModelId } = yield* models.find(caller, model)
    const earlier = yield* earlierOf(caller, entry.contextId)
    const request = yield* requestOf(earlier, {
      assistant_id: assistantId,
      input: yield* inputOf(caller, message.parts),
      turns: [],
      client_tools: runsTools ? message.metadata?.[Params.clientTools]?.client_tools ?? [] : [],
      llm_model_id: llmModelId,
      image_generator_id: imageGeneratorId
    })
    if (request === undefined) {
      return yield* invalidParams("message", "The conversation is too long. Begin a new context")
    }
    const task = { ...ownFieldsOf({}), assistantId, maxExecutionTime: timeLimit, ...request }
    const { uuid } = yield* Effect.uninterruptible(
      Effect.tap(
        tasks.create(caller, task, key),
        ({ uuid }) => contexts.add({ uuid, ...entry })
      )
    )
    return uuid
  })
})

const makeAnswer = Effect.gen(function*() {
  const tasks = yield* Tasks
  const contexts = yield* Contexts

  return Effect.fnUntraced(function*({ caller, params: { message } }: Sent, taskId: string, key: RequestKey) {
    const task = yield* tasks.getOutline(caller.principal, taskId)
    const contextId = (yield* contexts.find(task.uuid, task.revision)).contextId ?? task.uuid
    if (message.contextId && message.contextId !== contextId) {
      return yield* invalidParams("message.contextId", "The task is not in this context")
    }
    const calls = yield* readCalls(task.pendingToolCalls)
    const [part, ...others] = message.parts
    const data = part?.data
    const hasResults = task.status === "interrupted" && data instanceof RawJson && data.kind === Kind.object
    const results = hasResults && others.length === 0
      ? (yield* Params.decodeResults(data)).tool_results
      : undefined
    const [call, ...more] = calls
    const text = part?.text
    const isText = Predicate.isNotNullish(text) && others.length === 0
    if (task.status === "interrupted" && results === undefined && !(isText && more.length === 0)) {
      return yield* invalidParams(
        "message.parts",
        "Expected one part with data {tool_results: [{tool_call_id, output, is_error}]}, or a text where one call is pending"
      )
    }
    const answer = results ??
      (isText && call !== undefined ? [{ tool_call_id: call.id, output: text }] : [])
    yield* tasks.submitToolResults(caller, task, toToolResults(answer), key)
    return task.uuid
  })
})

/** Returns a function that returns the task of a message. */
export const make = Effect.gen(function*() {
  const digest = yield* Digest.Digest
  const create = yield* makeCreate
  const answer = yield* makeAnswer

  return Effect.fnUntraced(function*(sent: Sent) {
    const { message, source } = sent.params
    const id = yield* Effect.orDie(digest.digestHex(Digest.sha256, OpaqueJson.encode(message.messageId)))
    const key = { value: `a2a:${id}`, fingerprint: yield* fingerprintOf(digest, `A2A ${sent.model}`, source) }
    return yield* message.taskId ? answer(sent, message.taskId, key) : create(sent, key)
  })
})
