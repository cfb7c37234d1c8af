/** Tasks held in one state, with some tasks that have a time limit and one whose token is revoked. */
import { randomUUID } from "node:crypto"
import { eventually, mint } from "../kit/Service.ts"
import type { Clients, Created } from "./Clients.ts"
import { Gate } from "./Gate.ts"
import type { Batch, Plan, Stage } from "./Plan.ts"
import type { World } from "./World.ts"

const users = 4
/** The maximum number of active tasks of a user. */
const tasksOfUser = 5
/** Seconds. */
const limit = 3

const range = (size: number) => Array.from({ length: size }, (_, index) => index)

/** Some tasks are canceled instead of receiving tool results. */
const isCanceled = (stage: Stage, number: number) => stage === "interrupted" && number % 4 === 3

const must = async (creating: Promise<Created | undefined>) => {
  const created = await creating
  if (created === undefined) throw new Error("a user without tasks got 429")
  return created
}

const createHeld = async (clients: Clients, plan: Plan, stage: Stage) => {
  const tokens = await Promise.all(range(users).map((user) => mint(`user-${user}-${plan.gate}`)))
  return Promise.all(
    range(users * tasksOfUser).map((number) =>
      must(clients.create({
        token: tokens[number % users]!,
        plan: { ...plan, number },
        ...(isCanceled(stage, number) ? { expected: { status: "canceled", error: "no more" } } : {})
      }))
    )
  )
}

/** Tasks about which the core stays silent: two end by their time limit, one by revocation of its token. */
const createSilent = async (clients: Clients, { gate, ...rest }: Plan) => {
  const plan: Plan = { ...rest, gate, hold: null, interrupts: false, ends: "never" }
  const lapsing = await Promise.all(
    range(2).map(async (number) =>
      must(clients.create({
        token: await mint(`limited-${number}-${gate}`),
        plan,
        limit,
        expected: { status: "failed", error: `Task exceeded maximum execution time (${limit}s)` }
      }))
    )
  )
  const expected = { status: "failed", error: "Token revoked" } as const
  const revoked = await must(
    clients.create({ token: await mint(`revoked-${gate}`, { jti: gate }), plan, expected })
  )
  const end = async () => {
    const reader = await mint(`revoked-${gate}`, { jti: `reader-${gate}` })
    await clients.revoke(revoked.token)
    await Promise.all([...lapsing, { ...revoked, token: reader }].map((task) => clients.follow(task)))
  }
  return { size: lapsing.length + 1, end }
}

export const hold = async ({ clients, core, rows }: World, stage: Stage): Promise<Batch> => {
  const gate = new Gate()
  const plan: Plan = {
    gate: randomUUID(),
    number: 0,
    hold: stage,
    interrupts: stage === "interrupted" || stage === "resuming",
    ends: "well",
    pace: 0
  }
  core.gates.set(plan.gate, gate)
  const held = await createHeld(clients, plan, stage)
  const silent = await createSilent(clients, plan)
  if (stage === "resuming") await Promise.all(held.map((task) => clients.resumeFirst(task)))
  await eventually(async () => gate.size, (size) => size === held.length + silent.size, 20_000)

  const goOn = async (task: Created, number: number) => {
    if (isCanceled(stage, number)) await clients.cancel(task)
    const endedAt = await clients.follow(task)
    if (stage !== "delivering") return endedAt
    const takenAt = async () => clients.recorder.takenOf(task.uuid)
    return eventually(takenAt, (at) => at !== undefined, 60_000).then((at) => at ?? endedAt, () => performance.now())
  }
  const goOnAll = async () => {
    let isOver = false
    const stopWatching = rows.watch(clients.recorder)
    const askForMore = (index: number) =>
      clients.live(
        `user-${index % users}-${plan.gate}`,
        () => ({ ...plan, hold: null, interrupts: false }),
        400,
        () => isOver
      )
    const side = Promise.all([silent.end(), ...range(users * 2).map(askForMore)])
    const moments = await Promise.all(held.map(goOn))
    isOver = true
    await side
    stopWatching()
    core.gates.delete(plan.gate)
    return Math.max(...moments)
  }
  const going = Promise.withResolvers<number>()
  const release = () => {
    gate.open()
    void goOnAll().then(going.resolve, going.reject)
  }
  return { release, moved: going.promise }
}
