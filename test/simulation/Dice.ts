/** The only source of randomness of a simulated run. The same seed gives the same sequence. */
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"

export class Dice {
  #state: number

  constructor(seed: number) {
    this.#state = Math.imul(seed, 0x9e3779b9) ^ 0x5bf03635
  }

  /** At least 0 and less than 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** A whole number within inclusive bounds. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  /** A duration in milliseconds: usually short, sometimes up to `most`. */
  delay(most: number): number {
    return Math.floor(most * this.next() ** 3)
  }

  pick<A>(items: ReadonlyArray<A>): A {
    return items[this.between(0, items.length - 1)]!
  }

  /** One of the names, with a probability proportional to its weight. */
  weigh<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const names = Object.keys(weights) as Array<string> as Array<Name>
    let left = this.next() * names.reduce((sum, name) => sum + weights[name], 0)
    for (const name of names) if ((left -= weights[name]) < 0) return name
    return names.at(-1)!
  }

  readonly layerSecureRandom = Layer.sync(
    SecureRandom.SecureRandom,
    () => SecureRandom.make((size) => Uint8Array.from({ length: size }, () => this.between(0, 255)))
  )
}
