/** A mixed load of all actions of users, core and target, without held tasks, for a soak test. */
import { randomUUID } from "node:crypto"
import { pause } from "../kit/pause.ts"
import { happens, upTo } from "./chance.ts"
import type { Batch, Plan } from "./Plan.ts"
import type { World } from "./World.ts"

const users = 20

export const mix = async ({ clients, rows }: World): Promise<Batch> => {
  const id = randomUUID()
  const plan = (): Plan => ({
    gate: id,
    number: 0,
    hold: null,
    interrupts: happens(0.3),
    ends: "well",
    pace: 500
  })
  let isOver = false
  const stopWatching = rows.watch(clients.recorder)
  const living = Promise.all(
    Array.from({ length: users }, (_, user) => clients.live(`user-${user}-${id}`, plan, 300, () => isOver))
  )
  await pause(300)
  await upTo(1200)
  const going = Promise.withResolvers<number>()
  const end = async () => {
    // No tasks are held, so recovery ends when creates succeed again.
    const struckAt = performance.now()
    await pause(500)
    isOver = true
    await living
    stopWatching()
    return struckAt
  }
  return { release: () => void end().then(going.resolve, going.reject), moved: going.promise }
}
