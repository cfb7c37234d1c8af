/**
 * One simulated run: some minutes in which clients, core and nodes fail at random, then a calm phase in which every
 * task has to end. The services are the real ones. Time, randomness and the store are simulated, so a seed determines
 * the run.
 */
import { Clock, Duration, Effect, Logger, Random, Scheduler } from "effect"
import { TestClock } from "effect/testing"
import type { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import type { RunId } from "../../src/domain/Task.ts"
import * as Client from "./Client.ts"
import * as Core from "./Core.ts"
import type { Mutation } from "./Mutations.ts"
import * as Node from "./Node.ts"
import type { Violation } from "./Recorder.ts"
import * as WebhookTarget from "./WebhookTarget.ts"
import * as Witness from "./Witness.ts"
import * as World from "./World.ts"

export interface Outcome {
  readonly seed: number
  readonly violation: Violation | undefined
  readonly tasks: number
  readonly kills: number
  readonly timeline: () => string
}

/** Milliseconds. */
const roughTime = 90_000
/** The longest time limit plus the longest delay between two attempts of a stop request. */
const calmTime = 200_000 + 15_000
const stopTime = 100_000
/** The duration of all attempts of a delivery when each one is lost. */
const deliveryTime = 400_000
const step = 1000

const program = Effect.fnUntraced(function*(seed: number, mutation: Mutation) {
  const world = yield* World.make(seed)
  const { dice, recorder } = world
  const nodes: Array<Node.Node> = []
  const up = () => nodes.filter(({ isUp }) => isUp)
  let kills = 0

  const noteHealth = Effect.map(Clock.currentTimeMillis, (at) => {
    const awake = nodes.filter(({ isFrozen, isUp }) => isUp && !isFrozen)
    world.calmSince = awake.length > 0 ? at : undefined
    world.awakeSince = Math.min(...awake.map(({ awakeSince }) => awakeSince))
    world.faults.push(at)
  })

  const startNode = Effect.gen(function*() {
    const started = yield* Effect.result(Node.start(world, `node ${nodes.length + 1}`, core.end, mutation, noteHealth))
    if (started._tag === "Success") nodes.push(started.success)
    yield* noteHealth
  })

  const core = Core.make(world, up)

  const disturb = Effect.gen(function*() {
    const node = up().length === 0 ? undefined : dice.pick(up())
    if (node === undefined || (up().length < 2 && dice.chance(0.2))) return yield* startNode
    switch (dice.weigh({ kill: 3, stop: 1, freeze: 2, "core restart": 1, nothing: 2 })) {
      case "core restart":
        return yield* core.restart
      case "kill":
        kills++
        return yield* node.kill
      case "stop":
        return yield* node.stop
      case "freeze":
        return yield* Effect.forkIn(node.freeze(dice.delay(30_000)), world.scope)
    }
  })

  const chaos = Effect.gen(function*() {
    while (world.isRough) {
      yield* Effect.sleep(Duration.millis(dice.between(500, 20_000)))
      if (world.isRough) yield* disturb
    }
  })

  /** Since when each run that does not wait could have reached the core, in milliseconds. */
  const heldSince = new Map<RunId, number>()

  /** After the last fault a run that does not wait reaches the core, which takes no other one instead. */
  const checkTaken = Effect.gen(function*() {
    const present = yield* Clock.currentTimeMillis
    for (const { room, runId, status, uuid } of yield* World.liveTasks(world)) {
      if (status === "interrupted" || room === "waiting" || core.knows(runId)) {
        heldSince.delete(runId)
        continue
      }
      const since = Math.max(heldSince.get(runId) ?? present, world.calmSince ?? present)
      heldSince.set(runId, world.isRough || core.isFullSince(since) ? present : since)
      if (present > since + World.dispatchTime + world.sweepInterval) {
        yield* recorder.violated(`${uuid} is ${status}, and no core has it`)
      }
    }
  })

  const pass = Effect.fnUntraced(function*(millis: number, isEnough: () => Effect.Effect<boolean, StoreUnavailable>) {
    for (let passed = 0; passed < millis && recorder.violation === undefined; passed += step) {
      if (yield* isEnough()) return
      yield* TestClock.adjust(Duration.millis(step))
      yield* World.checkStore(world)
      yield* checkTaken
    }
  })

  const never = () => Effect.succeed(false)
  yield* Effect.forkIn(startNode, world.scope)
  for (const user of ["ann", "ben", "cleo"]) yield* Effect.forkIn(Client.live(world, user, up), world.scope)
  yield* Effect.forkIn(chaos, world.scope)
  yield* pass(roughTime, never)

  world.isRough = false
  world.calmFrom = yield* Clock.currentTimeMillis
  yield* recorder.note("world", "is calm")
  yield* pass(30_000, () => Effect.sync(() => nodes.every(({ isFrozen }) => !isFrozen)))
  // A fault that began before the calm may still kill a node.
  yield* pass(step, never)
  if (up().length === 0) yield* Effect.forkIn(startNode, world.scope)
  yield* pass(calmTime, () => Effect.map(World.liveTasks(world), (live) => live.length === 0))
  const [left] = yield* World.liveTasks(world)
  if (left !== undefined) yield* recorder.violated(`${left.uuid} never ends: it is ${left.status}`)
  yield* pass(stopTime, () => Effect.sync(() => core.liveRuns().length === 0))
  const [run] = core.liveRuns()
  if (run !== undefined) {
    yield* recorder.violated(`run ${run.runId} of task ${run.taskId} goes on although its task has ended`)
  }
  yield* pass(deliveryTime, () => WebhookTarget.isQuiet(world))
  yield* WebhookTarget.check(world)
  const readEnds = Witness.checkEnds(world, (sub, uuid) => {
    const principal = { sub, tokenId: "jti:reader", issuedAt: null }
    const [node] = up()
    return node === undefined ? Effect.succeedNone : Effect.option(node.call(node.tasks.get(principal, uuid)))
  })
  // After a violation the clock is stopped, so a frozen node would never respond.
  if (recorder.violation === undefined) yield* readEnds
  const outcome: Outcome = {
    seed,
    violation: recorder.violation,
    tasks: world.acknowledged.size,
    kills,
    timeline: () => recorder.timeline()
  }
  return outcome
}, Effect.scoped)

/** Avoids real timers between the steps of a fiber, so that a run takes milliseconds. */
const soon = (task: () => void) => {
  let isWanted = true
  queueMicrotask(() => {
    if (isWanted) task()
  })
  return () => {
    isWanted = false
  }
}

export const simulate = (seed: number, mutation: Mutation = {}): Promise<Outcome> =>
  Effect.runPromise(
    program(seed, mutation).pipe(
      Effect.provide([TestClock.layer({ warningDelay: "1 hour" }), Logger.layer([])]),
      Random.withSeed(seed)
    ),
    { scheduler: new Scheduler.MixedScheduler("async", soon) }
  )
