/**
 * Limits the attempts in flight: in total, per origin and per user. The window of an origin starts small, doubles with each response and
 * is reset to its initial size after an attempt without one. Origins whose window is at its smallest are unproven; their attempts
 * share the permits that are not reserved, so that proven origins find permits however many others hang.
 *
 * No origin and no user holds more than two thirds of the permits that the others leave, and no user more than a quarter of those
 * for unproven origins, so that whoever hangs leaves permits to the next one.
 */
import { Counts } from "../limits/Counts.ts"
import type { ClaimPermits } from "../store/webhooks/WebhookStore.ts"

interface Window {
  inFlight: number
  /** Whether no attempt began since `forgetIdle` found none in flight. */
  isIdle: boolean
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

export interface Attempt {
  readonly origin: string
  readonly sub: string
  /** Whether the origin is stored as proven. Attempts in flight to it decide otherwise. */
  readonly isProven: boolean
}

/** Those of `left` permits that a holder of `held` may still take. */
const shareOf = (part: number, left: number, held: number) => Math.max(0, Math.floor((left + held) * part) - held)

const partOfAll = 2 / 3
const partOfUnproven = 1 / 4

export class AttemptLimiter {
  readonly #bounds: Bounds
  /** The windows of origins that have attempts in flight or had one lately. An origin that responds at once often has none. */
  readonly #windows = new Map<string, Window>()
  readonly #users = new Counts()
  /** Attempts that began while their origin was unproven, by user. */
  readonly #unprovenOf = new Counts()
  #total = 0
  #unproven = 0

  constructor(bounds: Bounds) {
    this.#bounds = bounds
  }

  #isProven({ size }: Window) {
    return size > this.#bounds.smallest
  }

  /** Permits left in total. */
  get permits(): number {
    return this.#bounds.total - this.#total
  }

  get #unprovenPermits() {
    return Math.min(this.permits, this.#bounds.total - this.#bounds.reserved - this.#unproven)
  }

  #permitsOf({ inFlight, size }: Window) {
    return Math.max(0, Math.min(size - inFlight, shareOf(partOfAll, this.permits, inFlight)))
  }

  #newWindow(isProven: boolean): Window {
    return { inFlight: 0, isIdle: false, size: isProven ? this.#bounds.smallest * 2 : this.#bounds.smallest }
  }

  #userPermits(inFlight: number, unproven: number) {
    const total = shareOf(partOfAll, this.permits, inFlight)
    return { total, unproven: Math.min(total, shareOf(partOfUnproven, this.#unprovenPermits, unproven)) }
  }

  #permitsOfUser(sub: string) {
    return this.#userPermits(this.#users.of(sub), this.#unprovenOf.of(sub))
  }

  /** Deletes the windows of origins to which no attempt has begun since the call before, and none is in flight. */
  forgetIdle(): void {
    for (const [origin, window] of this.#windows) {
      if (window.inFlight > 0) continue
      if (window.isIdle) this.#windows.delete(origin)
      window.isIdle = true
    }
  }

  get claimable(): ClaimPermits {
    const byOrigin = new Map<string, { permits: number; isProven: boolean }>()
    for (const [origin, window] of this.#windows) {
      byOrigin.set(origin, { permits: this.#permitsOf(window), isProven: this.#isProven(window) })
    }
    return {
      byOrigin,
      ofProven: this.#permitsOf(this.#newWindow(true)),
      ofUnproven: this.#permitsOf(this.#newWindow(false)),
      byUser: new Map(Array.from(this.#users.holders(), (sub) => [sub, this.#permitsOfUser(sub)])),
      ofUser: this.#userPermits(0, 0),
      unproven: this.#unprovenPermits
    }
  }

  /**
   * Returns the release of the permit, which returns whether others may have waited for it. Without `hasResponded` no attempt was made,
   * which shows nothing of the origin.
   */
  acquire({ isProven, origin, sub }: Attempt): (hasResponded?: boolean) => boolean {
    const window = this.#windows.get(origin) ?? this.#newWindow(isProven)
    const isUnproven = !this.#isProven(window)
    this.#windows.set(origin, window)
    window.inFlight++
    window.isIdle = false
    this.#total++
    this.#users.add(sub)
    if (isUnproven) {
      this.#unproven++
      this.#unprovenOf.add(sub)
    }
    return (hasResponded) => {
      const user = this.#permitsOfUser(sub)
      const isAwaited = this.#permitsOf(window) === 0 || user.total === 0 || user.unproven === 0
      window.inFlight--
      this.#total--
      this.#users.remove(sub)
      if (isUnproven) {
        this.#unproven--
        this.#unprovenOf.remove(sub)
      }
      if (hasResponded !== undefined) {
        window.size = hasResponded ? Math.min(this.#bounds.largest, window.size * 2) : this.#bounds.smallest
      }
      if (window.inFlight === 0 && hasResponded === false) this.#windows.delete(origin)
      return isAwaited
    }
  }
}
