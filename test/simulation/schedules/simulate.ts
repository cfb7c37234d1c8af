/**
 * Simulates the firing of schedules: two nodes over one store, each killed before or after any of its steps and started again. Every moment
 * has exactly one task in the end.
 */
import { Clock, Context, Deferred, Duration, Effect, Exit, Layer, Option, Redacted, Scope } from "effect"
import { TestClock } from "effect/testing"
import { TaskId } from "../../../src/domain/Task.ts"
import { fromMicros, Timestamp } from "../../../src/domain/Timestamp.ts"
import { Firing } from "../../../src/services/schedules/Firing.ts"
import { RunTokens } from "../../../src/services/schedules/RunTokens.ts"
import {
  armed,
  defaults,
  type Definition,
  type Schedule,
  ScheduleId
} from "../../../src/services/schedules/Schedule.ts"
import * as SchedulesMemory from "../../../src/services/schedules/SchedulesMemory.ts"
import { SchedulesStore } from "../../../src/services/schedules/SchedulesStore.ts"
import { ScheduleWake } from "../../../src/services/schedules/ScheduleWake.ts"
import { TaskBodies } from "../../../src/services/schedules/TaskBodies.ts"
import { Settings } from "../../../src/services/settings/Settings.ts"
import { MemoryTables } from "../../../src/services/store/MemoryTables.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import { Tasks } from "../../../src/services/tasks/Tasks.ts"
import { Secrets } from "../../../src/services/tokens/Secrets.ts"
import { TokenRevocations } from "../../../src/services/tokens/TokenRevocations.ts"
import { question } from "../../kit/TestTasks.ts"
import { Dice } from "../Dice.ts"

type Store = SchedulesStore["Service"]

/** A planted bug. The simulation has to find it. */
export interface Planted {
  readonly store?: (store: Store) => Store
  /** Whether tasks are created without a key. */
  readonly isKeyless?: boolean
}

export const planted: Readonly<Record<string, Planted>> = {
  "tasks without a key": { isKeyless: true },
  "no run is taken over": { store: (store) => ({ ...store, takeOver: () => Effect.succeed([]) }) },
  "a lease that has ended already": {
    store: (store) => ({ ...store, claim: (claims, at) => store.claim(claims, at, Duration.zero) }),
    isKeyless: true
  },
  "a claim that forgets its run": {
    store: (store) => ({
      ...store,
      claim: (claims, at, lease) => store.claim(claims.map((claim) => ({ ...claim, run: undefined })), at, lease)
    })
  }
}

const minutes = 12
const users = ["ann", "bob", "cyd"]

const definition: Definition = { ...defaults, cron: "*/2 * * * *", overlap: "allow", catchupWindow: 600 }

const scheduleOf = (sub: string, index: number): Schedule => ({
  id: ScheduleId.make(`00000000-0000-7000-8000-00000000000${index}`),
  sub,
  key: null,
  definition,
  task: "{}",
  callbackSecret: null,
  state: "active",
  pausedReason: null,
  nextAt: armed(definition, Timestamp.make(0)),
  lastAt: null,
  revision: 0,
  version: 0,
  authorization: { tokenId: "", issuedAt: null, at: Timestamp.make(0), token: null },
  taskFailures: 0,
  tokenFailures: 0,
  createdAt: Timestamp.make(0),
  endedAt: null
})

/** The tasks of all nodes: by key, and by user in the order of their creation. */
const makeTasks = ({ isKeyless = false }: Planted) => {
  const byKey = new Map<string, TaskId>()
  const created = new Map<string, Array<string>>()
  let count = 0
  const create = (sub: string, key: string) => {
    const known = byKey.get(key)
    if (known !== undefined && !isKeyless) return known
    const uuid = TaskId.make(`00000000-0000-7000-9000-${String(++count).padStart(12, "0")}`)
    byKey.set(key, uuid)
    created.set(sub, [...created.get(sub) ?? [], key])
    return uuid
  }
  return { byKey, created, create }
}

/** What a node of the service lacks here would be called by none of its steps. */
const partly = <A>(service: Partial<A>) => service as A

interface World {
  readonly dice: Dice
  readonly store: Store
  readonly tasks: ReturnType<typeof makeTasks>
  isRough: boolean
}

/** Runs steps of a node, and kills it before or after some of them. */
const faults = ({ dice }: World, isRough: () => boolean, died: Deferred.Deferred<void>) => {
  const die = Effect.andThen(Deferred.succeed(died, undefined), Effect.never)
  return <A, E>(step: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      if (!isRough()) return step
      if (dice.chance(0.03)) return die
      return dice.chance(0.06) ? Effect.andThen(step, die) : step
    })
}

const nodeLayer = (world: World, died: Deferred.Deferred<void>) => {
  const { store, tasks } = world
  const step = faults(world, () => world.isRough, died)
  const layerStore = Layer.succeed(SchedulesStore, {
    ...store,
    claim: (...call) => step(store.claim(...call)),
    takeOver: (...call) => step(store.takeOver(...call)),
    record: (...call) => step(store.record(...call))
  })
  const layerTasks = Layer.succeed(
    Tasks,
    partly<Tasks["Service"]>({
      create: ({ principal: { sub } }, _, key) =>
        step(Effect.sync(() => ({ uuid: tasks.create(sub, key?.value ?? ""), maxExecutionTime: 1, isReplay: false })))
    })
  )
  const layerReads = Layer.succeed(
    TaskStore,
    partly<TaskStore["Service"]>({
      usedKey: (_, key) =>
        Effect.sync(() =>
          Option.map(Option.fromUndefinedOr(tasks.byKey.get(key)), (taskId) => ({ taskId, fingerprint: "" }))
        )
    })
  )
  return Firing.layer.pipe(
    Layer.provide([
      layerStore,
      layerTasks,
      layerReads,
      ScheduleWake.layer,
      Settings.layer({ sweepInterval: Duration.seconds(5) }),
      Layer.succeed(TaskBodies, { decode: () => Effect.succeed(question) }),
      Layer.succeed(Secrets, partly<Secrets["Service"]>({})),
      Layer.succeed(TokenRevocations, partly<TokenRevocations["Service"]>({ check: () => Effect.void })),
      Layer.succeed(RunTokens, {
        isMinting: true,
        callerFor: ({ sub }) =>
          Effect.succeed({
            principal: { sub, tokenId: "", issuedAt: null },
            token: Redacted.make(""),
            expiresAt: Infinity
          })
      })
    ])
  )
}

/** A node that starts again some seconds after each death. */
const runNode = Effect.fnUntraced(function*(world: World) {
  for (;;) {
    const died = yield* Deferred.make<void>()
    const scope = yield* Scope.make()
    yield* Layer.buildWithScope(Layer.fresh(nodeLayer(world, died)), scope)
    yield* Deferred.await(died)
    yield* Scope.close(scope, Exit.void)
    yield* Effect.sleep(Duration.millis(world.dice.between(0, 20_000)))
  }
})

/** Returns what is wrong with the tasks; undefined when each moment has exactly one. */
const problemOf = ({ tasks: { created } }: World): string | undefined => {
  for (const [index, sub] of users.entries()) {
    const { id } = scheduleOf(sub, index)
    const keys = created.get(sub) ?? []
    for (let minute = 2; minute <= minutes; minute += 2) {
      const moment = fromMicros(minute * 60_000_000)
      const count = keys.filter((key) => key === `schedule ${id} ${moment}`).length
      if (count !== 1) return `${sub} has ${count} tasks of minute ${minute}`
    }
  }
  return undefined
}

const simulateOne = Effect.fnUntraced(function*(seed: number, bug: Planted) {
  const memory = yield* Layer.build(
    Layer.fresh(Layer.provide(SchedulesMemory.layer, MemoryTables.layer))
  )
  const store = Context.get(memory, SchedulesStore)
  const world: World = {
    dice: new Dice(seed),
    store: bug.store?.(store) ?? store,
    tasks: makeTasks(bug),
    isRough: true
  }
  yield* TestClock.setTime(0)
  yield* Effect.forEach(users, (sub, index) => store.insert(scheduleOf(sub, index)), { discard: true })
  yield* Effect.forkScoped(runNode(world))
  yield* Effect.forkScoped(runNode(world))
  yield* TestClock.adjust(Duration.minutes(minutes - 1))
  world.isRough = false
  yield* TestClock.adjust(Duration.seconds(115))
  const end = yield* Clock.currentTimeMillis
  return end < minutes * 60_000 ? "the clock stopped" : problemOf(world)
})

/** The problem that a seed shows, if any. */
export const simulate = (seed: number, bug: Planted = {}): Promise<string | undefined> =>
  Effect.runPromise(Effect.scoped(simulateOne(seed, bug)).pipe(Effect.provide(TestClock.layer())))
