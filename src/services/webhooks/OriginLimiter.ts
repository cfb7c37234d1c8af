/**
 * Limits the attempts in flight, in total and per origin. The window of an origin starts small, doubles with each
 * response and is reset to its initial size after an attempt without one. Origins whose window is at its smallest are unproven.
 * They share the permits that are not reserved, so that proven origins find permits however many others hang. No origin holds more
 * than two thirds of the permits that the others leave, so that proven origins that hang leave permits too.
 */

interface Window {
  inFlight: number
  size: number
}

export interface Bounds {
  readonly total: number
  /** The part of `total` that only proven origins may use. */
  readonly reserved: number
  /** Permits of an origin at first, and after an attempt without a response. */
  readonly smallest: number
  /** Permits of an origin at most. */
  readonly largest: number
}

/** Proven origins with nothing in flight whose window is kept. */
const maxRemembered = 1000

export class OriginLimiter {
  readonly #windows = new Map<string, Window>()
  readonly #bounds: Bounds
  #total = 0
  #unproven = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  #isProven({ size }: Window) {
    return size > this.#bounds.smallest
  }

  #isClosedToUnproven() {
    return this.#unproven >= this.#bounds.total - this.#bounds.reserved
  }

  /** Permits left in total. */
  get permits(): number {
    return this.#bounds.total - this.#total
  }

  #permitsOf(window: Window) {
    if (!this.#isProven(window) && this.#isClosedToUnproven()) return 0
    const share = Math.floor((this.permits + window.inFlight) * 2 / 3)
    return Math.max(0, Math.min(window.size, share) - window.inFlight)
  }

  permitsOf(origin: string): number {
    return this.#permitsOf(this.#windows.get(origin) ?? { inFlight: 0, size: this.#bounds.smallest })
  }

  /** Permits of an origin without a window. */
  get permitsOfOthers(): number {
    return this.#permitsOf({ inFlight: 0, size: this.#bounds.smallest })
  }

  /** Permits left for each origin with a number of its own, and for all others. */
  get claimable(): { readonly permits: ReadonlyMap<string, number>; readonly permitsOfOthers: number } {
    const permits = new Map<string, number>()
    for (const [origin, window] of this.#windows) {
      if (window.inFlight > 0 || this.#isClosedToUnproven()) permits.set(origin, this.permitsOf(origin))
    }
    return { permits, permitsOfOthers: this.permitsOfOthers }
  }

  acquire(origin: string): void {
    const window = this.#windows.get(origin) ?? { inFlight: 0, size: this.#bounds.smallest }
    this.#windows.set(origin, window)
    window.inFlight += 1
    this.#total += 1
    if (!this.#isProven(window)) this.#unproven += 1
  }

  release(origin: string, hasResponded: boolean): void {
    const window = this.#windows.get(origin)
    if (window === undefined) return
    if (!this.#isProven(window)) this.#unproven -= window.inFlight
    window.inFlight -= 1
    this.#total -= 1
    window.size = hasResponded ? Math.min(this.#bounds.largest, window.size * 2) : this.#bounds.smallest
    if (!this.#isProven(window)) this.#unproven += window.inFlight
    if (window.inFlight === 0 && (!this.#isProven(window) || this.#windows.size > maxRemembered)) {
      this.#windows.delete(origin)
    }
  }
}
