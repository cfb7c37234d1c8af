/**
 * The text of a run as it grows. It is cut at the front beyond `keptUnits`; offsets count UTF-16 units from the beginning of the text. A
 * text that does not continue the one before is another `version`.
 */
import type { RunId, TaskId } from "../../domain/Task.ts"

/** UTF-16 units of one text that are kept: 256 KiB of ASCII. */
export const keptUnits = 256 * 1024
/** Dropping a unit at a time would copy the text each time. */
const slackUnits = keptUnits / 4

/** Whoever follows a text. */
export interface Follower {
  /** The text has grown, or is another one. */
  readonly onChange: () => void
}

/** A part of a text, from `offset` on. */
export interface Part {
  readonly offset: number
  readonly text: string
}

const isHigh = (unit: number) => unit >= 0xd800 && unit < 0xdc00
const isLow = (unit: number) => unit >= 0xdc00 && unit < 0xe000

/** The index, or the one before if a surrogate pair would be cut there. */
const borderOf = (text: string, index: number) =>
  index > 0 && index < text.length && isLow(text.charCodeAt(index)) && isHigh(text.charCodeAt(index - 1))
    ? index - 1
    : index

export class LiveText {
  readonly uuid: TaskId
  /** The run whose appends are counted; undefined before the first. */
  runId: RunId | undefined = undefined
  /** The index of the append that is expected; null if it is not known. */
  next: number | null = null
  /** Whether its run appends: then the text is more than the turns that were stored. */
  hasAppends = false
  /** Counts the texts that do not continue the one before. */
  version = 0
  /** Only a reader that has seen this revision of the task has the text so far up to its offset. */
  base: number
  /** The revision of the newest turn that the text has; -1 before the first. */
  turnRevision = -1
  /** Monotonic milliseconds until which the run is known to be the current one. */
  validUntil = -Infinity
  /** Monotonic milliseconds of the last append or read. */
  usedAt = 0
  readonly followers = new Set<Follower>()
  #text = ""
  #dropped = 0

  constructor(uuid: TaskId, base: number) {
    this.uuid = uuid
    this.base = base
  }

  /** Behind the last unit. */
  get end(): number {
    return this.#dropped + this.#text.length
  }

  /** Behind the last whole character: the second half of a pair may follow. */
  get wholeEnd(): number {
    const { length } = this.#text
    return length > 0 && isHigh(this.#text.charCodeAt(length - 1)) ? this.end - 1 : this.end
  }

  /** The first unit that is kept. */
  get offset(): number {
    return this.#dropped + borderOf(this.#text, Math.max(0, this.#text.length - keptUnits))
  }

  /** Bytes at most. */
  get size(): number {
    return 2 * this.#text.length
  }

  /** The part from `from`, or from the first unit that is kept, up to `to`. */
  part(from: number, to = this.end): Part {
    const offset = Math.max(from, this.offset)
    return { offset, text: this.#text.slice(offset - this.#dropped, Math.max(offset, to) - this.#dropped) }
  }

  append(text: string): void {
    this.#text += text
    const { length } = this.#text
    if (length > keptUnits + slackUnits) this.#drop(borderOf(this.#text, length - keptUnits))
  }

  /** Frees the text, but not what it counts. */
  free(): void {
    this.#drop(this.#text.length)
  }

  /**
   * Takes another whole text, of which the part from its `offset` on is known. Returns whether it equals this one, continues it or replaces it.
   * `base` is the revision from which on readers have the other one.
   */
  merge({ offset, text }: Part, base: number): "same" | "grown" | "replaced" {
    const end = offset + text.length
    if (this.#begins({ offset, text }, this.end)) {
      if (end === this.end) return "same"
      this.append(text.slice(this.end - offset))
      return "grown"
    }
    this.replace({ offset, text }, base)
    return "replaced"
  }

  /** Whether a text, as far as both are known, is the beginning of this one. */
  continues(other: Part): boolean {
    return other.offset + other.text.length <= this.end && this.#begins(other, other.offset + other.text.length)
  }

  replace({ offset, text }: Part, base: number): void {
    this.#text = text
    this.#dropped = offset
    this.base = base
    this.version++
    if (text.length > keptUnits + slackUnits) this.#drop(borderOf(text, text.length - keptUnits))
  }

  /** Whether the other text has the same units up to `to`, as far as both are known. */
  #begins({ offset, text }: Part, to: number): boolean {
    if (offset + text.length < to) return false
    const from = Math.max(offset, this.#dropped)
    if (from > to) return false
    // A text of which nothing is known cannot be compared.
    if (from === to) return to === 0 || (this.#dropped === 0 && offset === 0)
    return this.#text.slice(from - this.#dropped, to - this.#dropped) === text.slice(from - offset, to - offset)
  }

  #drop(units: number): void {
    this.#text = this.#text.slice(units)
    this.#dropped += units
  }
}
