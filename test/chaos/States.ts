/** Brings tasks to a state and holds them there. Beside them: some that have a time limit, and one whose token is revoked. */
import { randomUUID } from "node:crypto"
import { eventually, mint } from "../kit/Service.ts"
import type { Created } from "./Clients.ts"
import { Gate } from "./Gate.ts"
import { pause, upTo } from "./pause.ts"
import { type Plan, type Stage, stages } from "./Plan.ts"
import type { World } from "./World.ts"

/** `mixed` holds nothing: it is a load of everything. */
export const states = [...stages, "mixed"] as const
export type State = typeof states[number]

export interface Batch {
  /** Lets all go, once the fault has struck. */
  readonly release: () => void
  /** When all that was held had gone on to its right end, as seen from outside. */
  readonly moved: Promise<number>
}

const users = 4
const tasksOfUser = 5
const limit = 3

const range = (size: number) => Array.from({ length: size }, (_, index) => index)

/** Every user has as many active tasks as may be, and asks for more. */
const hold = async ({ clients, core, rows }: World, stage: Stage): Promise<Batch> => {
  const id = randomUUID()
  const gate = new Gate()
  core.gates.set(id, gate)
  const plan: Plan = {
    gate: id,
    number: 0,
    hold: stage,
    interrupts: stage === "interrupted" || stage === "resuming",
    ends: "well",
    pace: 0
  }
  const silent: Plan = { ...plan, hold: null, interrupts: false, ends: "never" }
  const tokens = await Promise.all(range(users).map((user) => mint(`user-${user}-${id}`)))
  const isCanceled = (number: number) => stage === "interrupted" && number % 4 === 3

  const must = async (creating: Promise<Created | undefined>) => {
    const created = await creating
    if (created === undefined) throw new Error("a user without tasks was told that there are too many")
    return created
  }
  const held = await Promise.all(
    range(users * tasksOfUser).map((number) =>
      must(clients.create({
        token: tokens[number % users]!,
        plan: { ...plan, number },
        ...(isCanceled(number) ? { expected: { status: "canceled", error: "no more" } } : {})
      }))
    )
  )
  const revokedToken = await mint(`revoked-${id}`, { jti: id })
  const [revoked, ...limited] = await Promise.all([
    must(clients.create({
      token: revokedToken,
      plan: silent,
      expected: { status: "failed", error: "Token revoked" }
    })),
    ...range(2).map(async (number) =>
      must(clients.create({
        token: await mint(`limited-${number}-${id}`),
        plan: silent,
        limit,
        expected: { status: "failed", error: `Task exceeded maximum execution time (${limit}s)` }
      }))
    )
  ])
  if (stage === "resuming") await Promise.all(held.map((task) => clients.resumeFirst(task)))
  await eventually(async () => gate.size, (size) => size === held.length + 1 + limited.length, 20_000)

  const goOn = async (task: Created, number: number) => {
    if (isCanceled(number)) await clients.cancel(task)
    const ended = await clients.follow(task)
    if (stage !== "delivering") return ended
    const takenAt = async () => clients.recorder.takenOf(task.uuid)
    return eventually(takenAt, (at) => at !== undefined, 60_000).then((at) => at ?? ended, () => performance.now())
  }
  const goOnAll = async () => {
    const reader = await mint(`revoked-${id}`, { jti: `reader-${id}` })
    const side = Promise.all([
      ...limited.map((task) => clients.follow(task)),
      clients.revoke(revokedToken).then(() => clients.follow({ ...revoked, token: reader }))
    ])
    let isOver = false
    const stopWatching = rows.watchLimit(clients.recorder)
    const asking = Promise.all(
      range(users * 2).map((index) =>
        clients.live(
          `user-${index % users}-${id}`,
          () => ({ ...plan, hold: null, interrupts: false }),
          400,
          () => isOver
        )
      )
    )
    const moments = await Promise.all(held.map(goOn))
    isOver = true
    await Promise.all([side, asking])
    stopWatching()
    core.gates.delete(id)
    return Math.max(...moments)
  }
  let moved: Promise<number> | undefined
  const going = Promise.withResolvers<number>()
  return {
    release: () => {
      gate.open()
      moved ??= goOnAll()
      moved.then(going.resolve, going.reject)
    },
    moved: going.promise
  }
}

const livingUsers = 20

const mix = async ({ clients, rows }: World): Promise<Batch> => {
  let isOver = false
  const id = randomUUID()
  const plan = (): Plan => ({
    gate: id,
    number: 0,
    hold: null,
    interrupts: Math.random() < 0.3,
    ends: "well",
    pace: 500
  })
  const stopWatching = rows.watchLimit(clients.recorder)
  const living = Promise.all(
    range(livingUsers).map((user) => clients.live(`user-${user}-${id}`, plan, 300, () => isOver))
  )
  const going = Promise.withResolvers<number>()
  await pause(300)
  await upTo(1200)
  return {
    release: () => {
      const struck = performance.now()
      void pause(500).then(async () => {
        isOver = true
        await living
        stopWatching()
        return struck
      }).then(going.resolve, going.reject)
    },
    moved: going.promise
  }
}

export const arrange = (world: World, state: State): Promise<Batch> =>
  state === "mixed" ? mix(world) : hold(world, state)
