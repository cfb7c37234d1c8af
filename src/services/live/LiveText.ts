/**
 * The text of a run as it grows. It is cut at the front beyond `keptUnits`; offsets count UTF-16 units from the beginning of the text. A
 * text that does not continue the one before is another `version`.
 */
import * as Limits from "../../domain/Limits.ts"

/** UTF-16 units of one text that are kept: 256 KiB of ASCII. */
export const keptUnits = 256 * 1024
/** Units that are joined: V8 keeps each part of a longer text, and 32 bytes for it, until the whole is read. */
const blockUnits = 1024
/** Units of a part of a long text, so that it can be dropped in parts. */
const longBlockUnits = 64 * 1024

/** A reader of a text, or another node. */
export interface Follower {
  /** The text has grown, or is another one. */
  readonly onChange: () => void
  /** The text behind it is kept for it, up to `Limits.unreadText`. */
  readonly end: () => number
}

/** A part of a text, from `offset` on. */
export interface Part {
  readonly offset: number
  readonly text: string
}

const isHigh = (unit: number) => unit >= 0xd800 && unit < 0xdc00
const isLow = (unit: number) => unit >= 0xdc00 && unit < 0xe000

/** The index, or the one before if a surrogate pair would be cut there. */
export const borderOf = (text: string, index: number) =>
  index > 0 && index < text.length && isLow(text.charCodeAt(index)) && isHigh(text.charCodeAt(index - 1))
    ? index - 1
    : index

/** In memory of its own: a slice refers to the whole text. */
const copy = (slice: string) => [slice.slice(0, 1), slice.slice(1)].join("")

export class LiveText {
  /** Counts the texts that do not continue the one before. */
  version = 0
  /** Only a reader that has seen this revision of the task has the text so far up to its offset. */
  base: number
  readonly followers = new Set<Follower>()
  /** They begin with whole characters. */
  readonly #blocks: Array<string> = []
  #last = ""
  #dropped = 0
  #length = 0

  constructor(base: number) {
    this.base = base
  }

  /** Behind the last unit. */
  get end(): number {
    return this.#dropped + this.#length
  }

  /** Behind the last whole character: the second half of a pair may follow. */
  get wholeEnd(): number {
    const last = this.#last === "" ? this.#blocks.at(-1) ?? "" : this.#last
    return last !== "" && isHigh(last.charCodeAt(last.length - 1)) ? this.end - 1 : this.end
  }

  /** The first unit that is kept. */
  get offset(): number {
    return this.#dropped
  }

  /** Bytes at most. */
  get size(): number {
    return 2 * this.#length
  }

  /** The part from `from`, or from the first unit that is kept, up to `to`. */
  part(from: number, to = this.end): Part {
    const offset = Math.max(from, this.#dropped)
    // Most readers are near the end.
    let at = this.end - this.#last.length
    const parts = [this.#last]
    for (let index = this.#blocks.length - 1; index >= 0 && at > offset; index--) {
      parts.push(this.#blocks[index]!)
      at -= this.#blocks[index]!.length
    }
    return { offset, text: parts.toReversed().join("").slice(offset - at, Math.max(offset, to) - at) }
  }

  /** All that is kept of a text, up to `to`, for a reader that comes now. */
  tail(to = this.end): Part {
    const { offset, text } = this.part(this.end - keptUnits - 1, to)
    const from = borderOf(text, Math.max(0, text.length - keptUnits))
    return { offset: offset + from, text: text.slice(from) }
  }

  append(text: string): void {
    this.#add(text)
    if (this.#length <= keptUnits + longBlockUnits) return
    let needed = this.end - keptUnits
    for (const { end } of this.followers) needed = Math.min(needed, end())
    this.#drop(Math.max(needed, this.end - Limits.unreadText))
  }

  /** Frees the text, but not what it counts, nor the first half of a pair: a reader would wait for the whole character. */
  free(): void {
    this.#set(this.part(this.wholeEnd).text, this.wholeEnd)
  }

  /**
   * Takes another whole text, of which the part from its `offset` on is known. Returns whether it equals this one, continues it or replaces it.
   * `base` is the revision from which on readers have the other one.
   */
  merge({ offset, text }: Part, base: number): "same" | "grown" | "replaced" {
    const end = offset + text.length
    if (this.#begins({ offset, text }, this.end)) {
      if (end === this.end) return "same"
      this.append(copy(text.slice(this.end - offset)))
      return "grown"
    }
    this.replace({ offset, text }, base)
    return "replaced"
  }

  /** Whether a text is the beginning of this one, as far as both are known. */
  continues(other: Part): boolean {
    const end = other.offset + other.text.length
    return end <= this.end && (end <= this.#dropped || this.#begins(other, end))
  }

  /** Whether another text meets this one, and is the same as far as both are known. */
  agrees({ offset, text }: Part): boolean {
    const from = Math.max(offset, this.#dropped)
    const to = Math.min(this.end, offset + text.length)
    return from <= to && this.part(from, to).text === text.slice(from - offset, to - offset)
  }

  replace({ offset, text }: Part, base: number): void {
    this.#set(text, offset)
    this.base = base
    this.version++
    this.#drop(this.end - keptUnits)
  }

  /** Whether the other text has the same units up to `to`, as far as both are known. */
  #begins({ offset, text }: Part, to: number): boolean {
    if (offset + text.length < to) return false
    const from = Math.max(offset, this.#dropped)
    if (from > to) return false
    // A text of which nothing is known cannot be compared.
    if (from === to) return to === 0 || (this.#dropped === 0 && offset === 0)
    return this.part(from, to).text === text.slice(from - offset, to - offset)
  }

  #set(text: string, dropped: number): void {
    this.#blocks.length = 0
    this.#last = ""
    this.#length = 0
    this.#dropped = dropped
    this.#add(text)
  }

  #add(text: string): void {
    this.#length += text.length
    this.#last += text
    if (this.#last.length <= blockUnits) return
    const whole = this.#last
    // The second half of a pair may follow.
    const to = isHigh(whole.charCodeAt(whole.length - 1)) ? whole.length - 1 : whole.length
    for (let at = 0; at < to;) {
      const end = Math.min(to, borderOf(whole, at + longBlockUnits))
      this.#blocks.push(copy(whole.slice(at, end)))
      at = end
    }
    this.#last = whole.slice(to)
  }

  /** Drops the blocks before a unit. */
  #drop(before: number): void {
    let count = 0
    while (count < this.#blocks.length && this.#dropped + this.#blocks[count]!.length <= before) {
      this.#dropped += this.#blocks[count]!.length
      this.#length -= this.#blocks[count]!.length
      count++
    }
    this.#blocks.splice(0, count)
  }
}
