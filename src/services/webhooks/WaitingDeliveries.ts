/**
 * Deliveries that were claimed before their origin had a permit, so that the next claim runs while the permits are in use. An origin
 * earns one place with each fast response in a row, which bounds both the wait and the claims that are taken back: the first
 * slow response, or attempt without one, releases all.
 */
import type { ClaimedDelivery } from "../store/WebhookStore.ts"

/** Three rounds of an origin's largest window: at most 1.5 s of fast responses, well within a lease. */
const maxPerOrigin = 192
/** An origin with more deliveries needs no claim, so that claims are large: each costs as much as 15 rows. */
const refill = 96
/** A claim may exceed it by its own size. */
const maxTotal = 256
/** Origins that keep their places while nothing waits. */
const maxOrigins = 64
/** Milliseconds. */
const fastResponse = 500

interface Origin {
  /** Fast responses in a row, up to the maximum. */
  earned: number
  readonly deliveries: Array<ClaimedDelivery>
}

export class WaitingDeliveries {
  readonly #origins = new Map<string, Origin>()
  #total = 0

  /** Origins that have earned places, or for which deliveries wait. */
  get origins(): Iterable<string> {
    return this.#origins.keys()
  }

  /** How many more deliveries of this origin may be claimed ahead. */
  placesOf(origin: string): number {
    const { deliveries = [], earned = 0 } = this.#origins.get(origin) ?? {}
    return Math.max(0, Math.min(earned - deliveries.length, maxTotal - this.#total))
  }

  isSupplied(origin: string): boolean {
    return (this.#origins.get(origin)?.deliveries.length ?? 0) > refill
  }

  add(delivery: ClaimedDelivery): void {
    const origin = this.#origins.get(delivery.origin) ?? { earned: 0, deliveries: [] }
    this.#origins.set(delivery.origin, origin)
    origin.deliveries.push(delivery)
    this.#total += 1
  }

  /** Removes the delivery that has waited longest. */
  take(origin: string): ClaimedDelivery | undefined {
    const taken = this.#origins.get(origin)?.deliveries.shift()
    if (taken !== undefined) this.#total -= 1
    return taken
  }

  /** Counts the end of an attempt. `milliseconds` is undefined without a response. Returns the deliveries to release. */
  count(origin: string, milliseconds: number | undefined): ReadonlyArray<ClaimedDelivery> {
    if (milliseconds === undefined || milliseconds > fastResponse) return this.release(origin)
    const found = this.#origins.get(origin)
    if (found !== undefined) found.earned = Math.min(maxPerOrigin, found.earned + 1)
    else {
      if (this.#origins.size >= maxOrigins) this.#forgetOne()
      this.#origins.set(origin, { earned: 1, deliveries: [] })
    }
    return []
  }

  /** Removes the deliveries and the places of an origin. */
  release(origin: string): ReadonlyArray<ClaimedDelivery> {
    const { deliveries = [] } = this.#origins.get(origin) ?? {}
    this.#origins.delete(origin)
    this.#total -= deliveries.length
    return deliveries
  }

  #forgetOne(): void {
    for (const [origin, { deliveries }] of this.#origins) {
      if (deliveries.length === 0) return void this.#origins.delete(origin)
    }
  }

  releaseAll(): ReadonlyArray<ClaimedDelivery> {
    return [...this.#origins.keys()].flatMap((origin) => this.release(origin))
  }
}
