/** Limits the large bodies in memory, in total and per origin: each takes its size until its target has responded. */

const maxTotal = 6
/** An origin that hangs leaves room for others. */
const maxPerOrigin = 2

export class LargeDeliveries {
  readonly #byOrigin = new Map<string, number>()
  #total = 0

  /** Returns whether there is room for one more. */
  enter(origin: string): boolean {
    const count = this.#byOrigin.get(origin) ?? 0
    if (this.#total >= maxTotal || count >= maxPerOrigin) return false
    this.#byOrigin.set(origin, count + 1)
    this.#total += 1
    return true
  }

  leave(origin: string): void {
    const count = this.#byOrigin.get(origin) ?? 1
    if (count === 1) this.#byOrigin.delete(origin)
    else this.#byOrigin.set(origin, count - 1)
    this.#total -= 1
  }
}
