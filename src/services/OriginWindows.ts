/**
 * How many attempts may be in flight: in all, and to each origin. An origin begins with a small window, which grows while it
 * answers and falls back when it hangs. Those that have not answered lately share a part of all places, so that however
 * many of them hang, the others always find some.
 */

interface Window {
  inFlight: number
  size: number
}

export interface Bounds {
  readonly total: number
  /** Places of `total` that only origins which answer may take. */
  readonly reserved: number
  readonly smallest: number
  readonly largest: number
}

/** Idle origins that are remembered. */
const maxRemembered = 1000

export class OriginWindows {
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

  /** Places left in all. */
  get places(): number {
    return this.#bounds.total - this.#total
  }

  placesOf(origin: string): number {
    const window = this.#windows.get(origin) ?? { inFlight: 0, size: this.#bounds.smallest }
    if (!this.#isProven(window) && this.#isClosedToUnproven()) return 0
    return Math.max(0, window.size - window.inFlight)
  }

  /** Places of an origin that nothing is known of. */
  get placesOfOthers(): number {
    return this.#isClosedToUnproven() ? 0 : this.#bounds.smallest
  }

  /** Places left, of the origins that have more or fewer than others, and of those. */
  get claimable(): { readonly places: ReadonlyMap<string, number>; readonly placesOfOthers: number } {
    const places = new Map<string, number>()
    for (const [origin, window] of this.#windows) {
      if (window.inFlight > 0 || this.#isClosedToUnproven()) places.set(origin, this.placesOf(origin))
    }
    return { places, placesOfOthers: this.placesOfOthers }
  }

  enter(origin: string): void {
    const window = this.#windows.get(origin) ?? { inFlight: 0, size: this.#bounds.smallest }
    this.#windows.set(origin, window)
    window.inFlight += 1
    this.#total += 1
    if (!this.#isProven(window)) this.#unproven += 1
  }

  leave(origin: string, answered: boolean): void {
    const window = this.#windows.get(origin)
    if (window === undefined) return
    if (!this.#isProven(window)) this.#unproven -= window.inFlight
    window.inFlight -= 1
    this.#total -= 1
    window.size = answered ? Math.min(this.#bounds.largest, window.size * 2) : this.#bounds.smallest
    if (!this.#isProven(window)) this.#unproven += window.inFlight
    if (window.inFlight === 0 && (!this.#isProven(window) || this.#windows.size > maxRemembered)) {
      this.#windows.delete(origin)
    }
  }
}
