/**
 * The texts that a node has, within a bound of memory: the least recently read are freed first. Their followers are told of changes, at most
 * once in `Limits.textInterval`.
 */
import { Clock, Duration, Effect, Latch, Semaphore } from "effect"
import * as Limits from "../../domain/Limits.ts"
import type { RunId, TaskId } from "../../domain/Task.ts"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"
import { LiveBytes, observe } from "../limits/Memory.ts"
import * as Worker from "../timing/Worker.ts"
import { LiveText } from "./LiveText.ts"

/** Milliseconds after which a text is dropped that nobody used: of a live task, and of one that has ended. */
const idle = { live: 5 * 60_000, ended: 60_000 }
const checkInterval = Duration.seconds(15)
/** Without texts: the first one ends it. */
const restInterval = Duration.days(1)

/** The part of the bound that is left when texts are freed. */
const freedTo = 7 / 8

const interval = Duration.toMillis(Limits.textInterval)

/** The longest sleep, in milliseconds, while followers wait for their turn: one that is due earlier may come meanwhile. */
const tick = 5

/** A text with what this node knows of the run that writes it. */
export class Entry extends LiveText {
  readonly uuid: TaskId
  /** The run whose appends are counted; undefined before the first. */
  runId: RunId | undefined = undefined
  /** The index of the append that is expected; null if it is not known. */
  next: number | null = null
  /** Whether its run appends: then the text is more than the turns that were stored. */
  hasAppends = false
  /** The revision of the newest turn that the text has; -1 before the first. */
  turnRevision = -1
  /** The revision at which its run began again after tool results; -1 in the first run. */
  resumedAt = -1
  /** Monotonic milliseconds until which the run is known to be the current one. */
  validUntil = -Infinity
  /** Monotonic milliseconds of the last append or read. */
  usedAt = 0
  /** Monotonic milliseconds from which on its followers may be told of the next change. */
  tellAt = 0
  /** A text that is read is not removed. */
  readers = 0
  hasEnded = false
  /** The moment from which on this node owned the task when it last counted appends; infinite if it did not. */
  ownedSince: number
  /** Whether this node took the task over, and no turn has come since: readers may have more of the text from the owner before. */
  mayLack = false
  /** How far the text of the owner is, if that is another node and can be reached. */
  remote: { readonly version: number; readonly end: number } | undefined = undefined
  /** Open once the owner has said what it has. */
  readonly isKnown = Latch.makeUnsafe()
  /** One of its readers reads the stored turn for all. */
  readonly reading = Semaphore.makeUnsafe(1)

  constructor(uuid: TaskId, base: number, ownedSince: number) {
    super(base)
    this.uuid = uuid
    this.ownedSince = ownedSince
  }
}

/** Tells followers of changes, at most once in `interval` for each text. */
const makeTeller = Effect.fnUntraced(function*(clock: Clock.Clock) {
  const later = new Set<Entry>()
  const hasLater = Latch.makeUnsafe()

  const tell = (entry: Entry, at: number) => {
    later.delete(entry)
    // A timer that is late does not delay those after it.
    entry.tellAt = at - entry.tellAt < interval ? entry.tellAt + interval : at + interval
    for (const { onChange } of entry.followers) onChange()
  }
  const tellLater = (entry: Entry) => {
    if (later.add(entry).size === 1) hasLater.openUnsafe()
  }
  const round = Effect.gen(function*() {
    yield* hasLater.await
    hasLater.closeUnsafe()
    while (later.size > 0) {
      const at = monotonicMillisOf(clock)
      let next = at + tick
      for (const entry of later) {
        if (entry.tellAt <= at) tell(entry, at)
        else next = Math.min(next, entry.tellAt)
      }
      yield* Effect.sleep(Duration.millis(Math.max(1, Math.ceil(next - monotonicMillisOf(clock)))))
    }
  })
  yield* Effect.forkScoped(Effect.forever(round))

  return {
    tellLater,
    changed: (entry: Entry, at = monotonicMillisOf(clock)) => {
      if (entry.followers.size === 0) return
      if (entry.tellAt <= at) tell(entry, at)
      else tellLater(entry)
    }
  }
})

export const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const maxBytes = yield* LiveBytes
  const entries = new Map<TaskId, Entry>()
  let bytes = 0
  yield* observe("core", "live", maxBytes, { inUse: () => bytes, waiting: () => 0 })

  const isHere = (entry: Entry) => entries.get(entry.uuid) === entry
  const remove = (entry: Entry) => {
    entries.delete(entry.uuid)
    bytes -= entry.size
  }
  const freeSome = () => {
    if (bytes <= maxBytes) return
    for (const other of entries.values()) {
      // Some room, so that not each append looks for it.
      if (bytes <= maxBytes * freedTo) break
      if (other.hasEnded && other.readers === 0) remove(other)
      else {
        const before = other.size
        other.free()
        bytes += other.size - before
      }
    }
  }
  /** Runs a change of a text, and frees others if there is too much. */
  const resize = <A>(entry: Entry, change: () => A): A => {
    const before = entry.size
    const changed = change()
    if (isHere(entry)) bytes += entry.size - before
    freeSome()
    return changed
  }
  const hasEntries = Latch.makeUnsafe()
  /** A text that was used is freed last. */
  const use = (entry: Entry) => {
    entry.usedAt = monotonicMillisOf(clock)
    if (!isHere(entry)) return
    entries.delete(entry.uuid)
    entries.set(entry.uuid, entry)
  }
  /** Adds an entry, unless another fiber has added one of its task meanwhile. */
  const add = (entry: Entry): Entry => {
    const known = entries.get(entry.uuid)
    if (known !== undefined) return known
    if (entries.size === 0) hasEntries.openUnsafe()
    entries.set(entry.uuid, entry)
    entry.usedAt = monotonicMillisOf(clock)
    bytes += entry.size
    freeSome()
    return entry
  }
  const dropIdle = Effect.sync(() => {
    const at = monotonicMillisOf(clock)
    for (const entry of entries.values()) {
      const longest = entry.hasEnded ? idle.ended : idle.live
      if (entry.readers === 0 && at - entry.usedAt > longest) remove(entry)
    }
  })
  yield* Worker.make({
    name: "the check of live texts",
    runOnce: dropIdle,
    interval: Effect.sync(() => entries.size === 0 ? restInterval : checkInterval),
    wake: hasEntries,
    isDelayed: true
  })
  return { entries, add, resize, use, ...(yield* makeTeller(clock)) }
})
