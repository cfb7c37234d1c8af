/** The batches that recovery dispatches after crashes, under TestClock, with nodes that die between two steps. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { SecureRandom } from "effect/crypto"
import { TestClock } from "effect/testing"
import { RunId, type TaskHead, TaskId } from "../../../src/domain/Task.ts"
import { plus, Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Recovery from "../../../src/services/actors/Recovery.ts"
import { RecoveryTrials } from "../../../src/services/store/RecoveryTrials.ts"
import * as RecoveryTrialsMemory from "../../../src/services/store/RecoveryTrialsMemory.ts"

const idOf = (number: number) => `00000000-0000-7000-8000-${String(number).padStart(12, "0")}`

const headOf = (number: number, status: "pending" | "processing" = "processing"): TaskHead => ({
  uuid: TaskId.make(idOf(number)),
  sub: "ann",
  status,
  revision: 1,
  runId: RunId.make(idOf(number)),
  maxExecutionTime: 60,
  deadline: plus(Timestamp.make(0), "1 hour"),
  acceptanceDeadline: null
})

const headsOf = (count: number) => Array.from({ length: count }, (_, number) => headOf(number))

/** Dispatches that crash a node, with the delay in milliseconds. */
type Poison = ReadonlyMap<number, number>

/** The numbers of the runs that one node dispatched, with the milliseconds since its start. */
interface Life {
  readonly dispatched: Array<readonly [millis: number, number: number]>
  readonly failed: Array<number>
  isDead: boolean
  /** Whether a run crashed it. */
  isLost: boolean
}

const world = Effect.gen(function*() {
  const store = Context.get(yield* Layer.build(RecoveryTrialsMemory.layer), RecoveryTrials)
  const random = Context.get(yield* Layer.build(SecureRandom.layerWebCrypto), SecureRandom.SecureRandom)
  const failed = new Set<number>()

  /** Runs a node that recovers runs, until it crashes or `millis` have passed; then it is killed or shut down cleanly. */
  const live = Effect.fnUntraced(function*(
    heads: ReadonlyArray<TaskHead>,
    millis: number,
    { end = "kill", poison = new Map(), slow = new Map() }: {
      readonly poison?: Poison
      /** Milliseconds for which runs wait for their dispatch. */
      readonly slow?: ReadonlyMap<number, number>
      readonly end?: "kill" | "stop"
    } = {}
  ) {
    const life: Life = { dispatched: [], failed: [], isDead: false, isLost: false }
    let passed = 0
    const die = Effect.suspend(() => {
      life.isLost = life.isLost || !life.isDead
      life.isDead = true
      return Effect.never
    })
    const alive = <A, E>(effect: Effect.Effect<A, E>) => Effect.suspend(() => life.isDead ? Effect.never : effect)
    const trials = RecoveryTrials.of({
      lost: (...args) => alive(store.lost(...args)),
      begin: (...args) => alive(store.begin(...args)),
      pass: (...args) => alive(store.pass(...args)),
      end: (...args) => alive(store.end(...args))
    })
    const scope = yield* Scope.make()
    const numberOf = ({ uuid }: TaskHead) => Number(uuid.slice(-12))
    const recovery = yield* Recovery.make({
      isWanted: (head) => !failed.has(numberOf(head)),
      dispatch: (head) =>
        alive(Effect.gen(function*() {
          yield* Effect.sleep(slow.get(numberOf(head)) ?? 0)
          life.dispatched.push([passed, numberOf(head)])
          const delay = poison.get(numberOf(head))
          if (delay === 0) return yield* die
          if (delay !== undefined) yield* Effect.forkIn(Effect.delay(die, delay), scope)
        })),
      fail: (head) =>
        alive(Effect.sync(() => {
          life.failed.push(numberOf(head))
          failed.add(numberOf(head))
        })),
      drop: () => {}
    }).pipe(
      Scope.provide(scope),
      Effect.provideService(RecoveryTrials, trials),
      Effect.provideService(SecureRandom.SecureRandom, random)
    )
    for (const head of heads.filter((head) => !failed.has(numberOf(head)))) recovery.add(head)
    for (; passed < millis && !life.isDead; passed += 125) yield* TestClock.adjust("125 millis")
    if (end === "kill") life.isDead = true
    yield* Effect.forkDetach(Scope.close(scope, Exit.void))
    yield* Effect.yieldNow
    return life
  })
  return { live, store }
})

const numbers = ({ dispatched }: Life) => dispatched.map(([, number]) => number)
const isAlone = (life: Life, number: number) => numbers(life).at(-1) === number

describe("recovery", () => {
  it.effect("dispatches batches of doubling size, the newest run last and alone", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const { dispatched } = yield* live(headsOf(1000), 30_000)
      const batches = [...Map.groupBy(dispatched, ([millis]) => millis).values()].map((batch) => batch.length)
      assert.deepStrictEqual(batches, [64, 128, 256, 512, 39, 1])
      assert.deepStrictEqual(dispatched.at(-1)?.[1], 999)
      assert.isAtMost(dispatched.at(-1)![0], 5 * 625)
    }))

  it.effect("takes less than a minute for 50,000 runs", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const { dispatched } = yield* live(headsOf(50_000), 60_000)
      assert.lengthOf(dispatched, 50_000)
    }))

  it.effect("dispatches pending runs first", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const { dispatched } = yield* live([...headsOf(100), headOf(200, "pending"), headOf(201, "pending")], 5000)
      assert.deepStrictEqual(dispatched.slice(0, 2), [[0, 200], [0, 201]])
      assert.lengthOf(dispatched, 102)
    }))

  it.effect("fails the newest run at the third start, after it crashed two nodes while alone", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const poison = new Map([[4, 0]])
      const lives = [
        yield* live(headsOf(5), 60_000, { poison }),
        yield* live(headsOf(5), 60_000, { poison }),
        yield* live(headsOf(5), 60_000, { poison })
      ]
      assert.deepStrictEqual(lives.map(numbers), [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3]])
      assert.deepStrictEqual(lives.map(({ failed }) => failed), [[], [], [4]])
      assert.isFalse(lives[2]?.isLost)
    }))

  it.effect("suspects a run that waited long for its dispatch and then crashed its node", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const poison = new Map([[2, 0]])
      const first = yield* live(headsOf(5), 60_000, { poison, slow: new Map([[2, 30_000]]) })
      assert.deepStrictEqual(numbers(first), [0, 1, 3, 4, 2])
      assert.isTrue(first.isLost)
      assert.deepStrictEqual(numbers(yield* live(headsOf(5), 60_000, { poison })), [0, 1, 3, 4, 2])
    }))

  it.effect("fails any other of a few runs at the fourth start, and dispatches the rest at each start", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const poison = new Map([[0, 0]])
      const lives: Array<Life> = []
      while (lives.at(-1)?.isLost !== false && lives.length < 10) {
        lives.push(yield* live(headsOf(5), 60_000, { poison }))
      }
      assert.lengthOf(lives, 4)
      assert.deepStrictEqual(lives[3]?.failed, [0])
      assert.sameMembers(numbers(lives[3]!), [1, 2, 3, 4])
      assert.isTrue(isAlone(lives[2]!, 0))
      // The suspect is tried after all other trials have passed and the quiet time is over.
      assert.isAtLeast(lives[2]!.dispatched.at(-1)![0], 4875)
    }))

  it.effect("finds two faulty runs among a thousand within a few starts", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      const poison = new Map([[17, 0], [600, 0]])
      const lives: Array<Life> = []
      while (lives.at(-1)?.isLost !== false && lives.length < 20) {
        lives.push(yield* live(headsOf(1000), 600_000, { poison }))
      }
      assert.sameMembers(lives.flatMap(({ failed }) => failed), [17, 600])
      assert.isAtMost(lives.length, 9)
      assert.strictEqual(new Set(lives.flatMap(numbers)).size, 1000)
    }), 30_000)

  for (const delay of [7000, 20_000, 31_000]) {
    it.effect(
      `finds a run that crashes the node after ${delay} ms, because trials take longer after each loss`,
      () =>
        Effect.gen(function*() {
          const { live } = yield* world
          const poison = new Map([[2, delay]])
          const lives: Array<Life> = []
          while (lives.at(-1)?.isLost !== false && lives.length < 20) {
            lives.push(yield* live(headsOf(5), 300_000, { poison }))
          }
          assert.deepStrictEqual(lives.flatMap(({ failed }) => failed), [2])
          assert.isAtMost(lives.length, 11)
        }),
      30_000
    )
  }

  it.effect("fails no run when nodes are repeatedly killed at the same age for other reasons", () =>
    Effect.gen(function*() {
      const { live } = yield* world
      for (const age of [125, 250, 500, 1000, 3000, 5250, 6000, 8000]) {
        for (let count = 0; count < 5; count++) {
          const { failed } = yield* live(headsOf(20), age)
          assert.deepStrictEqual(failed, [], `killed at ${age} ms`)
        }
        // The next kill happens after the service has run without faults for a while.
        yield* live(headsOf(20), 600_000)
      }
    }))

  it.effect("leaves no suspect after any number of clean shutdowns", () =>
    Effect.gen(function*() {
      const { live, store } = yield* world
      for (let count = 0; count < 5; count++) {
        const { dispatched, failed } = yield* live(headsOf(1), 250, { end: "stop" })
        assert.deepStrictEqual([failed, dispatched], [[], [[0, 0]]])
        assert.deepStrictEqual(yield* store.lost("another", [headOf(0).runId]), [])
      }
    }))

  it.effect("deletes the trials of a node after two minutes without a crash", () =>
    Effect.gen(function*() {
      const { live, store } = yield* world
      const runs = headsOf(3).map(({ runId }) => runId)
      yield* live(headsOf(3), 60_000)
      assert.lengthOf(yield* store.lost("another", runs), 3)
      yield* live(headsOf(3), 180_000)
      assert.lengthOf(yield* store.lost("another", runs), 0)
    }))
})
