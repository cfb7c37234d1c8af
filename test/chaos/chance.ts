/** Chance with a seed, so that a run makes the same plans again. When nodes and Postgres do what meanwhile is up to them. */
import { pause } from "../kit/pause.ts"
import { Dice } from "../simulation/Dice.ts"

let dice = new Dice(1)

export const seedChance = (seed: number) => {
  dice = new Dice(seed)
}

/** Whether something of this probability happens. */
export const happens = (probability: number) => dice.chance(probability)

export const shuffled = <A>(items: ReadonlyArray<A>): ReadonlyArray<A> =>
  items.map((item) => ({ item, place: dice.next() })).toSorted((one, other) => one.place - other.place)
    .map(({ item }) => item)

/** Pauses for at most so many milliseconds. */
export const upTo = (millis: number) => millis === 0 ? Promise.resolve() : pause(dice.next() * millis)
