/**
 * The texts that runs write, as they write them. Nothing of it is stored: the turns that a core reports are, and a text that is lost begins
 * again with the next one. Only tasks with appends or readers have a text here.
 */
import { Clock, Context, Duration, Effect, Layer, Option, RcMap, type Scope } from "effect"
import type { Reported } from "../../domain/CoreProtocol.ts"
import { encode, type OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import { type Found, object } from "../../domain/json/Shape.ts"
import { textOfToken } from "../../domain/json/tables.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type RunId, type TaskHead, type TaskId } from "../../domain/Task.ts"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { Changes } from "../signals/Changes.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { Turns } from "../tasks/Turns.ts"
import { Entry, make as makeEntries } from "./LiveEntries.ts"
import { type Change, type Handed, Peers, type Taken } from "./LivePeers.ts"
import { borderOf, keptUnits, type Part } from "./LiveText.ts"

/** Milliseconds for which a run that was the current one counts as such without another look, and between its signs of life. */
const validity = 5000
/** The longest that a reader waits for the owner of its task. */
const ownerPatience = Duration.millis(500)
/** Events of a task that are looked at for the begin of its current run. */
const maxEvents = 500

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

/** The outcome of appends: the index that is expected then is given, null if it is not known. */
type Appended = Required<Reported>

/** Another node has the task, and knows that the run is not its current one. */
type Outcome = Appended | Exclude<Taken, { readonly _tag: "Taken" }>

type Appends = NonNullable<Handed["appends"]>

export class LiveTexts extends Context.Service<LiveTexts, {
  /** Whether a turn of this task has to be reported to `turn`. */
  readonly has: (uuid: TaskId) => boolean
  /** Adds text to that of a run which this node has, and knows to be the current one; undefined if it does not. */
  readonly appendNow: (uuid: TaskId, runId: RunId, appends: Appends) => Appended | undefined
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
  readonly open: (task: TaskHead) => Effect.Effect<Entry, StoreUnavailable, Scope.Scope>
  /** Passes the text and its changes on to another node, until the scope closes. */
  readonly feed: (
    task: TaskHead,
    send: (change: Change) => void
  ) => Effect.Effect<void, StoreUnavailable, Scope.Scope>
  /** Brings a text up to the turn of a revision. The turn of a task that has ended well is right, whatever came before. */
  readonly settle: (text: Entry, revision: number) => Effect.Effect<void, StoreUnavailable>
  /** The outcome of a report that another node passed on to this one, the owner. */
  readonly take: <E>(handed: Handed, sign: Effect.Effect<TaskHead, E>) => Effect.Effect<Taken, E | StoreUnavailable>
  /** The run goes on after tool results, at a revision: as another one, with a text of its own. */
  readonly resume: (text: Entry, revision: number) => void
  /** Tells the followers of the text later, if they cannot be told now. */
  readonly tellLater: (text: Entry) => void
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
  const { add, changed, entries, resize, tellLater, use } = yield* makeEntries

  yield* changes.observe((uuid, head) => {
    const text = entries.get(uuid)
    if (text === undefined) return
    const isValid = head?.status === "processing" && head.runId === text.runId
    text.validUntil = isValid ? monotonicMillisOf(clock) + validity : -Infinity
    if (head !== undefined && isTerminal(head.status)) text.hasEnded = true
  })

  /** The text of a run begins without that of the one before. */
  const startRun = (text: Entry, runId: RunId | undefined, revision: number) => {
    text.runId = runId
    text.next = null
    // A turn that was stored before is that of an earlier run.
    text.turnRevision = revision
    if (text.end === 0) text.base = revision
    else resize(text, () => text.replace({ offset: 0, text: "" }, revision))
  }

  const resume = (text: Entry, revision: number) => {
    if (text.resumedAt >= revision) return
    text.resumedAt = revision
    if (text.base < revision) startRun(text, undefined, revision)
  }

  /** Whether another owner, or this node before a restart, may have had the text of a task. */
  const isTakenOver = ({ ownedSince, uuid }: Entry) => createdAt(uuid) < ownedSince && ownedSince < Infinity

  /** Takes the text of a turn of a revision. What readers have of an owner before need not be its beginning. */
  const mergeTurn = (text: Entry, part: Part, revision: number) => {
    const merged = resize(text, () => text.merge(part, revision))
    if (text.mayLack) text.base = revision
    text.mayLack = false
    if (merged !== "same") changed(text)
  }

  /** Brings a text up to the stored turn, unless it is ahead: the turn was read later than it was stored. */
  const readTurn = Effect.fnUntraced(function*(text: Entry) {
    const outline = Option.getOrUndefined(yield* store.outline(text.uuid))
    if (outline === undefined || outline.revision <= text.turnRevision) return
    const { revision, status, uuid } = outline
    const part = (yield* turns.read(outline, textShape, takePart)) ?? { offset: 0, text: "" }
    const found = yield* store.eventsAfter(uuid, Math.max(text.turnRevision, revision - maxEvents), maxEvents)
    if (revision <= text.turnRevision) return
    // The turn is older than tool results that came while it was read.
    const events = found.filter((event) => event.revision <= revision)
    const resumed = events.findLastIndex(({ type }) => type === "ToolResultsSubmitted")
    if (resumed >= 0) resume(text, events[resumed]!.revision)
    text.turnRevision = revision
    // The turn is that of an earlier run, while the current one has written none.
    if (status === "processing" && resumed >= 0 && !events.slice(resumed).some(({ type }) => type === "Progressed")) {
      return
    }
    if (status !== "completed" && (text.hasAppends || isTerminal(status)) && text.continues(part)) return
    mergeTurn(text, part, revision)
  })

  const settle = (text: Entry, revision: number) => {
    const isBehind = () => text.turnRevision < revision
    return isBehind()
      ? text.reading.withPermit(Effect.suspend(() => isBehind() ? readTurn(text) : Effect.void))
      : Effect.void
  }

  /** The text of a task of which nothing is known here, with what was stored. */
  const begin = Effect.fnUntraced(function*({ revision, runId, status, uuid }: TaskHead) {
    const text = new Entry(uuid, -1, ownership.ownedSince(uuid))
    yield* readTurn(text)
    text.base = Math.max(revision, text.turnRevision)
    // The stored turn need not be all that readers have.
    text.mayLack = isTakenOver(text)
    text.runId = runId
    text.hasEnded = isTerminal(status)
    return add(text)
  })

  /** Others may have counted appends since this node owned the task last. */
  const recount = (text: Entry) => {
    const since = ownership.ownedSince(text.uuid)
    if (text.ownedSince === since) return
    text.ownedSince = since
    text.mayLack = isTakenOver(text)
    text.next = null
  }

  /**
   * The index that is expected of a run of which no append is known: the first one, if the text is empty or this node has always owned the
   * task. Only both together say so when another index comes.
   */
  const firstOf = ({ end, ownedSince, uuid }: Entry, index: number | undefined) => {
    const isFresh = createdAt(uuid) >= ownedSince
    return (end === 0 && isFresh) || (index === 0 && (end === 0 || isFresh)) ? 0 : null
  }

  const apply = (text: Entry, appends: Appends, at: number) => {
    const expected = text.next ?? firstOf(text, appends[0]?.index)
    let next = expected
    let added = ""
    for (const append of appends) {
      if (append.index !== next) continue
      added += append.text
      next++
    }
    const applied = next !== expected
    text.next = next
    text.usedAt = at
    if (applied) {
      text.hasAppends = true
      resize(text, () => text.append(added))
      changed(text, at)
    }
    return { applied, next }
  }

  const appendNow = (uuid: TaskId, runId: RunId, appends: Appends): Appended | undefined => {
    const text = entries.get(uuid)
    const at = monotonicMillisOf(clock)
    if (text?.runId !== runId || at >= text.validUntil || !ownership.isMine(uuid)) return undefined
    recount(text)
    const { applied, next } = apply(text, appends, at)
    return { status: "processing", applied, next }
  }

  const appendHere = Effect.fnUntraced(function*<E>(
    { runId, uuid }: Pick<Handed, "uuid" | "runId">,
    appends: Appends,
    sign: Effect.Effect<TaskHead, E>
  ): Effect.fn.Return<Appended, E | StoreUnavailable> {
    const reported = appendNow(uuid, runId, appends)
    if (reported !== undefined) return reported
    const head = yield* sign
    const { revision, status } = head
    const known = entries.get(uuid)
    if (status !== "processing") return { status, applied: false, next: known?.next ?? null }
    const text = known ?? (yield* begin(head))
    recount(text)
    text.validUntil = monotonicMillisOf(clock) + validity
    if (text.runId === undefined) {
      text.readers++
      yield* Effect.ensuring(settle(text, revision), Effect.sync(() => void text.readers--))
    }
    const at = monotonicMillisOf(clock)
    // The run may have ended, or another one begun, since its sign.
    const isPast = revision < text.resumedAt || at >= text.validUntil || !ownership.isMine(uuid)
    if (isPast) return { status, applied: false, next: null }
    // A text without a run is that of the run after the last tool results, with the turn that this run may have stored.
    text.runId ??= runId
    if (text.runId !== runId) startRun(text, runId, revision)
    return { status, ...apply(text, appends, at) }
  })

  const takeTurn = (
    { revision, runId, uuid }: { readonly uuid: TaskId; readonly runId: RunId; readonly revision: number },
    part: Part,
    next: number | undefined
  ): number | null => {
    const text = entries.get(uuid) ?? add(new Entry(uuid, revision, ownership.ownedSince(uuid)))
    recount(text)
    if (revision < text.turnRevision) return text.next
    text.turnRevision = revision
    if (text.runId !== runId) startRun(text, runId, revision)
    if (next !== undefined) {
      text.next = next
      text.hasAppends = true
    }
    mergeTurn(text, part, revision)
    return text.next
  }

  /** Takes a change of the owner. A text that is ahead of an owner which lost its own waits for it. */
  const follow = (uuid: TaskId) => (change: Change | null): boolean => {
    const text = entries.get(uuid)
    // The last owner may pass changes on a little longer.
    if (text === undefined || (change !== null && ownership.isMine(uuid))) return true
    const { remote } = text
    if (change === null) {
      text.remote = undefined
      return true
    }
    const { base, isWhole, runId, version } = change
    const end = change.offset + change.text.length
    const isContinued = remote !== undefined && remote.version === version && remote.end === change.offset
    if (!isWhole && !isContinued) return false
    text.remote = { version, end }
    text.hasAppends = true
    text.next = null
    // The owner has not heard of the next run yet.
    if (base < text.resumedAt) {
      text.isKnown.openUnsafe()
      return true
    }
    text.runId = runId ?? text.runId
    if (!(isWhole && remote !== undefined) && text.continues(change) && end < text.end) {
      text.isKnown.openUnsafe()
      return true
    }
    const merged = resize(text, () => {
      if (isWhole) return text.merge(change, base)
      // A stored turn may have brought the beginning of the change.
      if (change.offset > text.end || !text.agrees(change)) return undefined
      text.append(change.text.slice(text.end - change.offset))
      return "grown"
    })
    if (merged === undefined) return false
    if (merged !== "replaced") text.base = base
    text.isKnown.openUnsafe()
    if (merged !== "same") changed(text)
    return true
  }
  const followed = yield* RcMap.make({ lookup: (uuid: TaskId) => peers.follow(uuid, follow(uuid)) })

  const open = Effect.fnUntraced(function*(task: TaskHead) {
    const begun = entries.has(task.uuid) ? undefined : yield* begin(task)
    const text = yield* Effect.acquireRelease(
      Effect.sync(() => {
        // It was removed at once if it has ended and the memory is full: this reader has it all the same.
        const text = entries.get(task.uuid) ?? begun!
        text.readers++
        use(text)
        return text
      }),
      (text) =>
        Effect.sync(() => {
          text.readers--
          use(text)
        })
    )
    recount(text)
    // Others may have owned the task since the text was here.
    if (ownership.isMine(task.uuid)) yield* settle(text, task.revision)
    yield* RcMap.get(followed, task.uuid)
    // The owner may know more of what a reader has than the store.
    if (!ownership.isMine(task.uuid)) yield* Effect.timeoutOption(text.isKnown.await, ownerPatience)
    return text
  })

  return LiveTexts.of({
    has: (uuid) => entries.has(uuid),

    appendNow,

    append: Effect.fnUntraced(function*<E>(
      run: Pick<Handed, "uuid" | "runId" | "eventId">,
      appends: Appends,
      sign: Effect.Effect<TaskHead, E>
    ): Effect.fn.Return<Outcome, E | StoreUnavailable> {
      if (ownership.isMine(run.uuid)) return yield* appendHere(run, appends, sign)
      const taken = yield* peers.hand({ ...run, appends })
      if (taken === undefined) return { status: (yield* sign).status, applied: false, next: null }
      if (taken._tag !== "Taken") return taken
      const { applied, next, status } = taken
      return { status, applied, next }
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
        if (ownership.isMine(run.uuid)) return Effect.succeed(known?.next ?? null)
        return Effect.map(
          peers.hand({ ...run, appends: [] }),
          (taken) => taken?._tag === "Taken" ? taken.next : null
        )
      }),

    take: Effect.fnUntraced(function*({ appends, runId, turn, uuid }, sign) {
      let taken: Appended = { status: "processing", applied: true, next: null }
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

    settle,
    resume,
    tellLater
  })
})
