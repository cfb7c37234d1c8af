/**
 * The texts that runs write, as they write them. Nothing of it is stored: the turns that a core reports are, and a text that is lost begins
 * again with the next one. Only tasks with appends or readers have a text here.
 */
import { Clock, Context, Duration, Effect, Layer, Option, RcMap, type Scope } from "effect"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { type Found, object } from "../../domain/json/Shape.ts"
import { textOfToken } from "../../domain/json/tables.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type RunId, type TaskHead, type TaskId, type TaskStatus } from "../../domain/Task.ts"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { Changes } from "../signals/Changes.ts"
import { type TaskOutline, TaskStore } from "../store/tasks/TaskStore.ts"
import { Turns } from "../tasks/Turns.ts"
import * as LiveEntries from "./LiveEntries.ts"
import { type Change, type Handed, Peers, type Taken } from "./LivePeers.ts"
import { borderOf, keptUnits, LiveText, type Part } from "./LiveText.ts"

/** Milliseconds for which a run that was the current one counts as such without another look, and between its signs of life. */
const validity = 5000
/** The longest that a reader waits for the owner of its task. */
const ownerPatience = Duration.millis(500)

export const textShape = object({ output: TurnParts.output })

/** The text of a turn, as far as it is kept. */
const takePart = (turn: Found, bytes: Uint8Array): Part => {
  const found = TurnParts.textOf(turn, bytes)
  const text = found === undefined ? "" : textOfToken(found.bytes, 0, found.bytes.length, true)
  const offset = borderOf(text, Math.max(0, text.length - keptUnits))
  return { offset, text: text.slice(offset) }
}

/** The text of a turn in memory, as far as it is kept. */
const partOf = (turn: OpaqueJson): Effect.Effect<Part> => {
  const bytes = encode(turn)
  return Effect.map(RawJson.find(textShape, bytes), (found) => takePart(found, bytes))
}

/** Milliseconds since 1970 at which a task was created, as its id (UUID version 7) says. */
const createdAt = (uuid: TaskId) => Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)

interface Reported {
  readonly status: TaskStatus
  readonly applied: boolean
  /** The index of the append that is expected; null if it is not known. */
  readonly next: number | null
}

/** Another node has the task, and knows that the run is not its current one. */
type Outcome = Reported | Exclude<Taken, { readonly _tag: "Taken" }>

type Appends = NonNullable<Handed["appends"]>

export class LiveTexts extends Context.Service<LiveTexts, {
  /** Whether a turn of this task has to be reported to `turn`. */
  readonly has: (uuid: TaskId) => boolean
  /** Adds text. `sign` records a sign of life of the run, and fails when the run is not the current one. */
  readonly append: <E>(
    run: { readonly uuid: TaskId; readonly runId: RunId; readonly eventId: string },
    appends: Appends,
    sign: Effect.Effect<TaskHead, E>
  ) => Effect.Effect<Outcome, E | StoreUnavailable>
  /** Takes the text of a turn that was stored. Returns the index that is expected, if the core counts appends. */
  readonly turn: (
    stored: { readonly uuid: TaskId; readonly runId: RunId; readonly eventId: string; readonly revision: number },
    turn: OpaqueJson,
    next: number | undefined
  ) => Effect.Effect<number | null>
  /** The index that is expected, as far as this node knows or the owner says. */
  readonly nextOf: (
    run: { readonly uuid: TaskId; readonly runId: RunId; readonly eventId: string }
  ) => Effect.Effect<number | null>
  /** The text of a task for a reader, until the scope closes. */
  readonly open: (task: TaskHead) => Effect.Effect<LiveText, StoreUnavailable, Scope.Scope>
  /** Passes the text and its changes on to another node, until the scope closes. */
  readonly feed: (
    task: TaskHead,
    send: (change: Change) => void
  ) => Effect.Effect<void, StoreUnavailable, Scope.Scope>
  /** Brings a text up to the turn of a revision. The turn of a task that has ended well is right, whatever came before. */
  readonly settle: (text: LiveText, revision: number, status: TaskStatus) => Effect.Effect<void, StoreUnavailable>
  /** The outcome of a report that another node passed on to this one, the owner. */
  readonly take: <E>(handed: Handed, sign: Effect.Effect<TaskHead, E>) => Effect.Effect<Taken, E | StoreUnavailable>
  /** The run goes on after tool results, at a revision: as another one, with a text of its own. */
  readonly resume: (text: LiveText, revision: number) => void
  /** Tells the followers of the text later, if they cannot be told now. */
  readonly tellLater: (text: LiveText) => void
}>()("async-task-service/services/live/LiveTexts") {
  static readonly layer = Layer.effect(LiveTexts, Effect.suspend(() => make))
}

const make = Effect.gen(function*() {
  const store = yield* TaskStore
  const turns = yield* Turns
  const ownership = yield* TaskOwnership
  const changes = yield* Changes
  const peers = yield* Peers
  const clock = yield* Clock.Clock
  const { add, changed, entries, resize, tellLater, use } = yield* LiveEntries.make

  yield* changes.observe((uuid, head) => {
    const entry = entries.get(uuid)
    if (entry === undefined) return
    const isValid = head?.status === "processing" && head.runId === entry.text.runId
    entry.text.validUntil = isValid ? monotonicMillisOf(clock) + validity : -Infinity
    if (head !== undefined && isTerminal(head.status)) entry.hasEnded = true
  })

  const readOutline = (uuid: TaskId) => Effect.map(store.outline(uuid), Option.getOrUndefined)
  const readPart = (outline: TaskOutline) =>
    Effect.map(turns.read(outline, textShape, takePart), (part): Part => part ?? { offset: 0, text: "" })

  /** The revision at which the current run began after tool results, or -1, and whether it reported a turn since. */
  const currentRun = Effect.fnUntraced(function*({ revision, uuid }: TaskOutline) {
    const events = yield* store.eventsAfter(uuid, Math.max(-1, revision - 500), 500)
    const resumed = events.findLastIndex(({ type }) => type === "ToolResultsSubmitted")
    return {
      resumedAt: events[resumed]?.revision ?? -1,
      hasTurn: resumed < 0 || events.slice(resumed).some(({ type }) => type === "Progressed")
    }
  })

  /** The text of a task of which nothing is known here, with what was stored. */
  const begin = Effect.fnUntraced(function*(head: TaskHead) {
    const { runId, uuid } = head
    // Others may have had more of the text before: the task may be older than this process, or than its ownership here.
    const isFresh = createdAt(uuid) >= ownership.ownedSince(uuid)
    const outline = yield* readOutline(uuid)
    const part = outline === undefined ? undefined : yield* readPart(outline)
    const isStored = outline !== undefined && part?.text !== ""
    const run = isStored ? yield* currentRun(outline) : undefined
    const known = entries.get(uuid)
    if (known !== undefined) return known
    const entry = add(new LiveText(uuid, outline?.revision ?? head.revision))
    const { text } = entry
    text.runId = runId
    entry.hasEnded = isTerminal(head.status)
    if (run !== undefined) {
      const { revision, status } = outline!
      entry.resumedAt = run.resumedAt
      text.turnRevision = revision
      // The turn is that of an earlier run, while the current one has written none.
      if (run.hasTurn || status !== "processing") {
        resize(entry, () => text.merge(part!, revision))
        entry.mayStart = isFresh
      }
    }
    return entry
  })

  /** The text of a run begins without that of the one before. */
  const startRun = (entry: LiveEntries.Entry, runId: RunId | undefined, revision: number) => {
    const { text } = entry
    text.runId = runId
    text.next = null
    // A turn that was stored before is that of an earlier run.
    text.turnRevision = revision
    entry.mayStart = true
    if (text.end === 0) text.base = revision
    else resize(entry, () => text.replace({ offset: 0, text: "" }, revision))
  }

  /** Others may have counted appends since this node owned the task last. */
  const recount = (entry: LiveEntries.Entry) => {
    const since = ownership.ownedSince(entry.text.uuid)
    if (entry.ownedSince === since) return
    entry.ownedSince = since
    entry.text.next = null
    entry.mayStart = false
    entry.isStale = true
  }

  const apply = (
    entry: LiveEntries.Entry,
    appends: Appends
  ): { readonly applied: boolean; readonly next: number | null } => {
    const { text } = entry
    let added = ""
    if (entry.mayStart && text.next === null && appends[0]?.index === 0) text.next = 0
    let { next } = text
    for (const append of appends) {
      if (next === null || append.index !== next) continue
      added += append.text
      next++
    }
    const applied = next !== text.next
    text.next = next
    text.usedAt = monotonicMillisOf(clock)
    if (applied) {
      entry.text.hasAppends = true
      resize(entry, () => text.append(added))
      changed(entry)
    }
    return { applied, next }
  }

  const appendHere = <E>(
    { runId, uuid }: { readonly uuid: TaskId; readonly runId: RunId },
    appends: Appends,
    sign: Effect.Effect<TaskHead, E>
  ): Effect.Effect<Reported, E | StoreUnavailable> =>
    Effect.suspend(() => {
      const known = entries.get(uuid)
      if (known !== undefined) recount(known)
      if (known !== undefined && known.text.runId === runId && monotonicMillisOf(clock) < known.text.validUntil) {
        return Effect.succeed({ status: "processing" as const, ...apply(known, appends) })
      }
      return Effect.flatMap(sign, (head): Effect.Effect<Reported, StoreUnavailable> => {
        if (head.status !== "processing") {
          return Effect.succeed({ status: head.status, applied: false, next: known?.text.next ?? null })
        }
        const entry = entries.get(uuid)
        return Effect.map(entry === undefined ? begin(head) : Effect.succeed(entry), (entry) => {
          if (entry.text.runId !== runId) startRun(entry, runId, head.revision)
          entry.text.validUntil = monotonicMillisOf(clock) + validity
          return { status: head.status, ...apply(entry, appends) }
        })
      })
    })

  const takeTurn = (
    { revision, runId, uuid }: { readonly uuid: TaskId; readonly runId: RunId; readonly revision: number },
    part: Part,
    next: number | undefined
  ): number | null => {
    const entry = entries.get(uuid) ?? add(new LiveText(uuid, revision))
    const { text } = entry
    recount(entry)
    if (revision < text.turnRevision) return text.next
    text.turnRevision = revision
    if (text.runId !== runId) startRun(entry, runId, revision)
    if (next !== undefined) {
      text.next = next
      entry.text.hasAppends = true
    }
    text.validUntil = monotonicMillisOf(clock) + validity
    if (resize(entry, () => text.merge(part, revision)) !== "same") changed(entry)
    return text.next
  }

  /** A turn that was read later than it was stored: the text may have grown since. */
  const readTurn = Effect.fnUntraced(function*(entry: LiveEntries.Entry, status: TaskStatus) {
    const { text } = entry
    const outline = yield* readOutline(text.uuid)
    if (outline === undefined || outline.revision <= text.turnRevision) return
    const part = yield* readPart(outline)
    const { revision } = outline
    if (revision <= text.turnRevision) return
    text.turnRevision = revision
    if (status !== "completed" && (text.hasAppends || isTerminal(status)) && text.continues(part)) return
    if (resize(entry, () => text.merge(part, revision)) !== "same") changed(entry)
  })

  /** Takes a change of the owner. A text that is ahead of an owner which lost its own waits for it. */
  const follow = (uuid: TaskId) => (change: Change | null): boolean => {
    const entry = entries.get(uuid)
    // The last owner may pass changes on a little longer.
    if (entry === undefined || (change !== null && ownership.isMine(uuid))) return true
    const { remote, text } = entry
    if (change === null) {
      entry.remote = undefined
      return true
    }
    const { base, isWhole, runId, version } = change
    const end = change.offset + change.text.length
    const isContinued = remote !== undefined && remote.version === version && remote.end === change.offset
    if (!isWhole && !isContinued) return false
    entry.remote = { version, end }
    text.hasAppends = true
    text.next = null
    entry.mayStart = false
    // The owner has not heard of the next run yet.
    if (base < entry.resumedAt) {
      entry.isKnown.openUnsafe()
      return true
    }
    text.runId = runId ?? text.runId
    if (!(isWhole && remote !== undefined) && text.continues(change) && end < text.end) {
      entry.isKnown.openUnsafe()
      return true
    }
    const merged = resize(entry, () => {
      if (isWhole) return text.merge(change, base)
      // A stored turn may have brought the beginning of the change.
      if (change.offset > text.end || !text.agrees(change)) return undefined
      text.append(change.text.slice(text.end - change.offset))
      return "grown"
    })
    if (merged === undefined) return false
    if (merged !== "replaced") text.base = base
    entry.isKnown.openUnsafe()
    if (merged !== "same") changed(entry)
    return true
  }
  const followed = yield* RcMap.make({ lookup: (uuid: TaskId) => peers.follow(uuid, follow(uuid)) })

  const open = Effect.fnUntraced(function*(task: TaskHead) {
    const begun = entries.has(task.uuid) ? undefined : yield* begin(task)
    const entry = yield* Effect.acquireRelease(
      Effect.sync(() => {
        // One that was added is the newest, and so freed last: it is still here.
        const entry = entries.get(task.uuid) ?? begun!
        entry.readers++
        use(entry)
        return entry
      }),
      (entry) =>
        Effect.sync(() => {
          entry.readers--
          use(entry)
        })
    )
    recount(entry)
    if (entry.isStale && ownership.isMine(task.uuid)) {
      const since = entry.ownedSince
      yield* readTurn(entry, task.status)
      // Another node may have owned it during the read.
      if (entry.ownedSince === since) entry.isStale = false
    }
    yield* RcMap.get(followed, task.uuid)
    // The owner may know more of what a reader has than the store.
    if (!ownership.isMine(task.uuid)) yield* Effect.timeoutOption(entry.isKnown.await, ownerPatience)
    return entry.text
  })

  return LiveTexts.of({
    has: (uuid) => entries.has(uuid),

    append: <E>(
      run: Pick<Handed, "uuid" | "runId" | "eventId">,
      appends: Appends,
      sign: Effect.Effect<TaskHead, E>
    ) =>
      Effect.suspend((): Effect.Effect<Outcome, E | StoreUnavailable> => {
        if (ownership.isMine(run.uuid)) return appendHere(run, appends, sign)
        return Effect.flatMap(
          peers.hand({ ...run, appends }),
          (taken): Effect.Effect<Outcome, E> => {
            if (taken === undefined) return Effect.map(sign, ({ status }) => ({ status, applied: false, next: null }))
            if (taken._tag !== "Taken") return Effect.succeed(taken)
            const { applied, next, status } = taken
            return Effect.succeed({ status, applied, next })
          }
        )
      }),

    turn: Effect.fnUntraced(function*(stored, turn, next) {
      const part = yield* partOf(turn)
      if (ownership.isMine(stored.uuid)) return takeTurn(stored, part, next)
      const { revision, ...run } = stored
      const taken = yield* peers.hand({ ...run, turn: { ...part, revision, next: next ?? null } })
      return taken?._tag === "Taken" ? taken.next : null
    }),

    nextOf: (run) =>
      Effect.suspend(() => {
        const known = entries.get(run.uuid)
        if (known !== undefined) recount(known)
        if (ownership.isMine(run.uuid)) return Effect.succeed(known?.text.next ?? null)
        return Effect.map(
          peers.hand({ ...run, appends: [] }),
          (taken) => taken?._tag === "Taken" ? taken.next : null
        )
      }),

    take: Effect.fnUntraced(function*({ appends, runId, turn, uuid }, sign) {
      let taken: Reported = { status: "processing", applied: true, next: null }
      if (turn !== undefined) {
        const next = takeTurn({ uuid, runId, revision: turn.revision }, turn, turn.next ?? undefined)
        taken = { ...taken, next }
      }
      if (appends !== undefined) taken = yield* appendHere({ uuid, runId }, appends, sign)
      return { _tag: "Taken" as const, ...taken }
    }),

    open,

    feed: Effect.fnUntraced(function*(task, send) {
      const text = yield* open(task)
      let version = -1
      let end = 0
      const sendPart = (part: Part, isWhole: boolean) => {
        const { base, runId = null } = text
        version = text.version
        end = part.offset + part.text.length
        send({ version, isWhole, base, runId, ...part })
      }
      const onChange = () => {
        if (version !== text.version || end < text.offset) sendPart(text.tail(), true)
        while (end < text.end) sendPart(text.part(end, Math.min(text.end, end + keptUnits)), false)
      }
      const follower = { onChange, end: () => version === text.version ? end : Infinity }
      yield* Effect.acquireRelease(
        Effect.sync(() => void text.followers.add(follower)),
        () => Effect.sync(() => void text.followers.delete(follower))
      )
      onChange()
    }),

    settle: (text, revision, status) =>
      Effect.suspend(() => {
        const entry = entries.get(text.uuid)
        if (entry === undefined || text.turnRevision >= revision) return Effect.void
        return readTurn(entry, status)
      }),

    resume: (text, revision) => {
      const entry = entries.get(text.uuid)
      if (entry === undefined || entry.resumedAt >= revision || text.base >= revision) return
      entry.resumedAt = revision
      startRun(entry, undefined, revision)
    },

    tellLater: (text) => {
      const entry = entries.get(text.uuid)
      if (entry !== undefined) tellLater(entry)
    }
  })
})
