/** Answers about one task: at once, held until it has ended or is interrupted, or as a stream of its events. */
import { Effect, Stream, Struct } from "effect"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { stringOf } from "../../domain/json/RawJson.ts"
import { type Writable, write } from "../../domain/json/Writer.ts"
import * as Limits from "../../domain/Limits.ts"
import type { Caller } from "../../domain/Principal.ts"
import { isTerminal, type Task } from "../../domain/Task.ts"
import * as FairPermits from "../../services/limits/FairPermits.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { TaskWatch, type WatchedEvent } from "../../services/tasks/TaskWatch.ts"
import { type Client, cut, makeClient, slicesOf } from "../../services/tasks/Turns.ts"
import { type Change, hasRun, makeFollowText, maxWait } from "../facades/Following.ts"
import * as Held from "../facades/Held.ts"
import { encode, type Id } from "../facades/JsonRpc.ts"
import { makeSend } from "../handlers/TaskReading.ts"
import type { Dialect, Part, Update, View } from "./Dialects.ts"
import * as Errors from "./Errors.ts"
import * as Params from "./Params.ts"
import * as Views from "./Views.ts"

/** A request for a method, without its parameters: they refer to its body, and an answer may last. */
export interface Call {
  readonly id: Id | null
  readonly caller: Caller
  readonly model: string
  readonly dialect: Dialect
  readonly isLegacy: boolean
  /** The extensions that the client asks for. */
  readonly asked: ReadonlySet<string>
}

export const resultOf = ({ id }: Pick<Call, "id">, result: Writable): Writable => ({ jsonrpc: "2.0", id, result })

export const errorOf = ({ id, isLegacy }: Pick<Call, "id" | "isLegacy">, failure: Errors.Failure): Writable => {
  const refused = Errors.toRefused(failure)
  const { code, message } = refused
  return { jsonrpc: "2.0", id, error: { code, message, data: isLegacy ? undefined : Errors.detailsOf(refused) } }
}

export const wantedBy = ({ asked }: Call, history: number | null | undefined): Views.Wanted => ({
  history: history ?? undefined,
  hasArtifacts: true,
  maxText: Limits.coreEventBytes,
  hasRevision: asked.has(Params.revision)
})

/** The text that an artifact begins with. */
const textIn = ([first]: ReadonlyArray<Part>) => first?.type === "text" ? stringOf(first.text) : ""

/** The updates that make an artifact of one with the text `sent`. */
const toArtifact = (parts: ReadonlyArray<Part>, sent: string) => {
  const text = textIn(parts)
  if (sent !== "" && parts.length === 0) {
    const none: Part = { type: "text", text: "" }
    return [{ parts: [none], append: false }]
  }
  if (sent === "" || !text.startsWith(sent)) return parts.length === 0 ? [] : [{ parts, append: false }]
  const rest = text.slice(sent.length)
  const more: ReadonlyArray<Part> = [...(rest === "" ? [] : [{ type: "text" as const, text: rest }]), ...parts.slice(1)]
  return more.length === 0 ? [] : [{ parts: more, append: true }]
}

/** The updates of one stream, each with what the client does not have yet. */
const makeUpdates = (first: View) => {
  let sent = textIn(first.artifact ?? [])
  let { status } = first
  let hasAppends = false
  const { contextId, uuid } = first
  // The first view is not kept while the stream lasts.
  const hasRevision = first.metadata !== undefined
  const artifact = (parts: ReadonlyArray<Part>, metadata: View["metadata"]) => {
    const updates = toArtifact(parts, sent)
    sent = textIn(parts)
    return updates.map((update): Update => ({ type: "artifact", uuid, contextId, metadata, ...update }))
  }
  return {
    ofEvent: ({ isAppended, ...event }: Change): ReadonlyArray<Update> => {
      // The text of a core that only reports turns comes with their events; that of one that appends is ahead of them.
      if (isAppended === false) return []
      hasAppends ||= isAppended === true
      if (hasAppends && isAppended === undefined) event = Struct.omit(event, ["text"])
      const metadata = hasRevision ? { revision: event.revision } : undefined
      const hasChanged = event.status !== status
      status = event.status
      return [
        ...(event.text === undefined || event.text === sent
          ? []
          : artifact([{ type: "text", text: event.text }], metadata)),
        ...(hasChanged
          ? [{
            type: "status" as const,
            uuid,
            contextId,
            status,
            changedAt: event.occurredAt,
            message: undefined,
            metadata
          }]
          : [])
      ]
    },
    ofEnd: (view: View): ReadonlyArray<Update> => [
      ...artifact(view.artifact ?? [], view.metadata),
      { type: "status", ...view }
    ]
  }
}

/** A view whose text is as long as that of events, which later ones continue. */
const shortened = (view: View): View => ({
  ...view,
  artifact: view.artifact?.map((part) => part.type === "text" ? { ...part, text: cut(stringOf(part.text)) } : part)
})

/** A task before it ended or was interrupted. */
const begun = ({ createdAt }: Task, view: View): View => ({
  ...view,
  status: "processing",
  changedAt: createdAt,
  message: undefined,
  artifact: undefined,
  metadata: view.metadata && { revision: 0 }
})

/** An interrupted task that was answered before it was read. */
const stoppedAt = ({ occurredAt, revision, status }: WatchedEvent, view: View): View => ({
  ...view,
  status,
  changedAt: occurredAt,
  metadata: view.metadata && { revision }
})

/** Streams whose last view is read at a time. Those of one task end together. */
const endPermits = { total: 16, perHolder: 2 }

/** Tasks of callers as they are shown. */
const makeRead = Effect.gen(function*() {
  const tasks = yield* Tasks
  const viewOf = yield* Views.make
  const outline = ({ caller }: Call, uuid: string) => tasks.getOutline(caller.principal, uuid)
  const view = Effect.fnUntraced(function*(client: Client, call: Call, uuid: string, wanted: Views.Wanted) {
    return yield* viewOf(client, call.caller, yield* outline(call, uuid), wanted)
  })
  return { outline, view, viewOf }
})
type Read = Effect.Success<typeof makeRead>

const makeStream = Effect.fnUntraced(function*({ outline, view, viewOf }: Read) {
  const followText = yield* makeFollowText
  const open = yield* Held.makeOpen
  const permits = FairPermits.make(endPermits)

  return Effect.fnUntraced(
    function*(call: Call, uuid: string, history: number | null | undefined, isSubscription: boolean) {
      const client = makeClient()
      const { dialect } = call
      const wanted = { ...wantedBy(call, history), maxText: Views.maxText }
      const task = yield* outline(call, uuid)
      if (isSubscription && isTerminal(task.status)) {
        return yield* Errors.refused("UNSUPPORTED_OPERATION", "The task has ended. Call GetTask for its result.")
      }
      const changes = yield* followText(Struct.omit(task, ["turn"]), true)
      const hasArtifacts = !hasRun(task) || task.turnBytes <= Limits.eventTurnBytes
      const present = yield* Effect.scoped(viewOf(client, call.caller, task, { ...wanted, hasArtifacts }))
      // A task may end before it is read here. The client then sees how it ran too.
      const first = hasRun(task) ? shortened(present) : isSubscription ? present : begun(task, present)
      const updates = makeUpdates(first)
      const finish = Effect.scoped(
        Effect.andThen(permits.take(call.caller.principal.sub, 1), view(client, call, uuid, { ...wanted, history: 0 }))
      )
      const rest = hasRun(task)
        ? Stream.mapEffect(
          Stream.takeUntil(changes, (event) => !hasRun(event)),
          (event) =>
            hasRun(event)
              ? Effect.sync(() => updates.ofEvent(event))
              : Effect.map(finish, (view) => updates.ofEnd(hasRun(view) ? stoppedAt(event, view) : view))
        )
        : Stream.make(updates.ofEnd(present))
      const frameOf = (response: Writable): Held.Frame =>
        Stream.make(OpaqueJson.concat([
          OpaqueJson.encode("data: "),
          Held.onOneLine(encode(response)),
          OpaqueJson.encode("\n\n")
        ]))
      const resultFrame = (result: Writable) => frameOf(resultOf(call, result))
      let begin: Held.Frame | undefined = resultFrame(dialect.wrapped("task", dialect.task(first)))
      // The first frame is not kept once it was sent.
      const beginning = Stream.suspend(() => {
        const frame = begin ?? Stream.empty
        begin = undefined
        return frame
      })
      const updating = Stream.flattenIterable(rest).pipe(
        Stream.map((update) => resultFrame(dialect.update(update))),
        // A client sees why its stream ends, and subscribes again.
        Stream.catchCause((cause) =>
          Stream.fromEffect(
            Effect.failCause(cause).pipe(
              Errors.withoutDefects,
              Effect.catch((failure) => Effect.succeed(frameOf(errorOf(call, failure))))
            )
          )
        )
      )
      return yield* open(client, Stream.concat(Stream.make(beginning), updating), Held.events)
    }
  )
})

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const watch = yield* TaskWatch
  const open = yield* Held.makeOpen
  const send = yield* makeSend
  const read = yield* makeRead
  const { view } = read

  /** The task, as the result of a method that returns nothing else if `isBare`. */
  const pieces = Effect.fnUntraced(
    function*(client: Client, call: Call, uuid: string, wanted: Views.Wanted, isBare: boolean) {
      const task = call.dialect.task(yield* view(client, call, uuid, wanted))
      return write(resultOf(call, isBare ? task : call.dialect.wrapped("task", task)))
    }
  )

  const show = Effect.fnUntraced(function*(call: Call, uuid: string, wanted: Views.Wanted, isBare: boolean) {
    const client = makeClient()
    return send(client, yield* pieces(client, call, uuid, wanted, isBare))
  })

  const hold = Effect.fnUntraced(function*(call: Call, uuid: string, wanted: Views.Wanted) {
    const client = makeClient()
    const head = yield* tasks.getHead(call.caller.principal, uuid)
    if (!hasRun(head)) return yield* show(call, uuid, wanted, false)
    const ended = watch.until(head, (task) => !hasRun(task), maxWait)
    // The head of the response has been sent.
    const body = Effect.andThen(ended, pieces(client, call, uuid, wanted, false)).pipe(
      Errors.withoutDefects,
      Effect.catch((failure) => Effect.succeed(write(errorOf(call, failure)))),
      Effect.map((pieces) => slicesOf(OpaqueJson.toBytes(pieces)))
    )
    return yield* open(client, Stream.make(Stream.unwrap(body)), Held.json)
  })

  return { hold, show, stream: yield* makeStream(read) }
})

export interface Answers extends Effect.Success<typeof make> {}
