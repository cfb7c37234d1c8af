/**
 * One process of the service: the real use cases, actors, sweeper and stops over the world's store. It can be killed or
 * frozen between any two calls that it makes. A killed node makes no more calls; a frozen one makes none until it
 * wakes.
 */
import { Clock, Context, Deferred, Duration, Effect, Exit, identity, Latch, Layer, Redacted, Scope } from "effect"
import type { CoreUnavailable } from "../../src/domain/DispatchRetry.ts"
import { concat } from "../../src/domain/json/OpaqueJson.ts"
import { StoreUnavailable } from "../../src/domain/StoreUnavailable.ts"
import type { TaskEvent, TaskId } from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import * as NodeCrypto from "../../src/runtime/node/NodeCrypto.ts"
import { TaskActors } from "../../src/services/actors/TaskActors.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { CoreClient, type CoreResponse, CoreTransport } from "../../src/services/core/CoreClient.ts"
import { Settings } from "../../src/services/settings/Settings.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import { RunQueue } from "../../src/services/store/queue/RunQueue.ts"
import { RevocationRepository } from "../../src/services/store/revocations/RevocationRepository.ts"
import { TaskStore } from "../../src/services/store/tasks/TaskStore.ts"
import { WebhookStore } from "../../src/services/store/webhooks/WebhookStore.ts"
import * as TaskEngine from "../../src/services/TaskEngine.ts"
import { Tasks } from "../../src/services/tasks/Tasks.ts"
import { Secrets } from "../../src/services/tokens/Secrets.ts"
import { TokenRevocations } from "../../src/services/tokens/TokenRevocations.ts"
import { WebhookSender } from "../../src/services/webhooks/WebhookSender.ts"
import * as Batches from "./Batches.ts"
import type { Mutation } from "./Mutations.ts"
import * as WebhookTarget from "./WebhookTarget.ts"
import { acceptanceTimeout, checkStore, maxActiveTasks, type Stores, type World } from "./World.ts"

export interface CoreEnd {
  /** Fails when the connection fails. */
  readonly answer: (path: string, body: string) => Effect.Effect<CoreResponse, CoreUnavailable>
  /** Called when the service lost the response to a resume. The core may send an event at that moment. */
  readonly resumeReplyLost: (taskId: TaskId) => Effect.Effect<void>
}

export interface Node {
  readonly name: string
  readonly tasks: Tasks["Service"]
  readonly revocations: Pick<TokenRevocations["Service"], "check">
  /** A call by a client or the core to this node. It fails when the node dies before it responds, or has a fault. */
  readonly call: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E | DeliveryError>
  readonly kill: Effect.Effect<void>
  readonly freeze: (millis: number) => Effect.Effect<void>
  readonly stop: Effect.Effect<void>
  isUp: boolean
  isFrozen: boolean
  /** Milliseconds. */
  awakeSince: number
  /** The moment of the node's last fault, in milliseconds. */
  faultedAt: number
}

export class DeliveryError {
  readonly _tag = "DeliveryError"
}

const plainSecrets = Layer.succeed(Secrets, {
  seal: (_, text) => Effect.succeed(Redacted.value(text)),
  open: (_, sealed) => Effect.succeed(Redacted.make(sealed))
})

const settings = ({ coreRuns, sweepInterval }: World) =>
  Settings.layer({
    coreRuns,
    maxActiveTasks,
    acceptanceTimeout: Duration.millis(acceptanceTimeout),
    sweepInterval: Duration.millis(sweepInterval)
  })

/** A user's runs of one class leave the queue in the order of their creation. */
const inOrder = ({ recorder, tables }: World, queue: RunQueue["Service"]): RunQueue["Service"] => ({
  ...queue,
  admit: (admission) =>
    Effect.suspend(() => {
      const before = [...tables.waiting.values()]
      return Effect.tap(queue.admit(admission), ({ heads }) => {
        const admitted = new Set(heads.map(({ uuid }) => uuid))
        const isPassed = before.some((one) =>
          admitted.has(one.taskId) &&
          before.some((other) =>
            !admitted.has(other.taskId) && other.sub === one.sub && other.class === one.class &&
            other.since < one.since &&
            admission.shards?.includes(TaskShard.of(other.taskId)) !== false
          )
        )
        return isPassed ? recorder.violated("a later run of a user was admitted before an earlier one") : Effect.void
      })
    })
})

type Method = (...args: ReadonlyArray<never>) => Effect.Effect<unknown, unknown>

/** Weights of the faults of a call to the store in the rough phase. */
const faults = { none: 300, "killed before": 1, "killed after": 1, "lost request": 1, "lost reply": 1 }
/** Commits fail more often than other calls, because most invariants depend on them. */
const faultsOfCommit = { none: 100, "killed before": 1, "killed after": 1, "lost request": 1, "lost reply": 6 }
/** A lost response to a resume can only be repaired by a sweep or by an event of the core. */
const faultsOfResume = { ...faultsOfCommit, "lost reply": 100 }

const faultsOf = (method: string, [, event]: ReadonlyArray<unknown>) => {
  if (method !== "commit") return faults
  return (event as TaskEvent)._tag === "ToolResultsSubmitted" ? faultsOfResume : faultsOfCommit
}

export const start = Effect.fnUntraced(function*(
  world: World,
  name: string,
  core: CoreEnd,
  mutation: Mutation,
  /** Runs whenever a node stops, freezes or wakes. */
  changed: Effect.Effect<void>
) {
  const { dice, recorder } = world
  const died = yield* Deferred.make<void>()
  const awake = yield* Latch.make(true)
  const scope = yield* Scope.make()
  /** Whether the node is shutting down in order and finishes its work. */
  let isStopping = false
  const node = { isUp: true, isFrozen: false, awakeSince: yield* Clock.currentTimeMillis, faultedAt: -Infinity }

  const noteFault = Effect.map(Clock.currentTimeMillis, (at) => {
    world.faults.push(at)
    node.faultedAt = at
  })

  /** Makes a call if the node is up and awake. A response to a node that has died is dropped. */
  const outward = <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E> => {
    const whenUp = awake.await.pipe(
      Effect.andThen(Effect.suspend(() => node.isUp || isStopping ? Effect.void : Effect.never))
    )
    return whenUp.pipe(
      Effect.andThen(Effect.exit(call)),
      Effect.tap(() => whenUp),
      Effect.flatMap((exit) => exit)
    )
  }

  const kill = Effect.suspend(() => {
    if (!node.isUp) return Effect.void
    node.isUp = false
    return Effect.andThen(
      Effect.andThen(recorder.note(name, "is killed"), changed),
      Effect.andThen(Deferred.succeed(died, undefined), Effect.forkDetach(Scope.close(scope, Exit.void)))
    )
  })

  /** The store as this node sees it, with faults. */
  const withFaults = <Service extends object>(service: Service): Service => {
    const wrapped = Object.entries(service).map(([method, call]) => [
      method,
      (...args: ReadonlyArray<never>) =>
        outward(Effect.suspend(() => {
          const fault = world.isRough ? dice.weigh(faultsOf(method, args)) : "none"
          const done = (call as Method)(...args)
          if (fault === "none") return Effect.tap(done, () => checkStoreAfter(method))
          const lost = Effect.fail(new StoreUnavailable({ cause: `${fault} of ${method}` }))
          const noted = Effect.andThen(noteFault, recorder.note(name, `${method}: ${fault}`))
          switch (fault) {
            case "killed before":
              return Effect.andThen(noted, Effect.andThen(kill, Effect.never))
            case "killed after":
              return Effect.andThen(done, Effect.andThen(noted, Effect.andThen(kill, Effect.never)))
            case "lost request":
              return Effect.andThen(noted, lost)
            case "lost reply":
              return done.pipe(
                Effect.andThen(noted),
                Effect.andThen(afterLostReply(method, args)),
                Effect.andThen(lost)
              )
          }
        }))
    ])
    return Object.fromEntries(wrapped) as Service
  }

  const afterLostReply = (method: string, args: ReadonlyArray<unknown>) => {
    const [taskId, event] = args as Parameters<TaskStore["Service"]["commit"]>
    return method === "commit" && event._tag === "ToolResultsSubmitted" ? core.resumeReplyLost(taskId) : Effect.void
  }

  /** The active-task limit must hold at every moment, so it is checked after every create. */
  const checkStoreAfter = (method: string) => method === "create" ? checkStore(world) : Effect.void

  const transport = Layer.succeed(CoreTransport, {
    connect: () => outward(Effect.void),
    post: (url, _headers, body) => outward(core.answer(new URL(url).pathname, new TextDecoder().decode(concat(body))))
  })
  const sender = Layer.succeed(WebhookSender, {
    post: (_url, headers, body) => outward(WebhookTarget.receive(world, headers, body))
  })
  const stores = yield* Batches.make(world, mutation.batches ?? identity)
  const withMutation = <Id extends Stores, Service extends object>(
    key: Context.Key<Id, Service>,
    mutate: (service: Service) => Service = identity
  ) => Layer.succeed(key, withFaults(mutate(Context.get(stores, key))))
  const store = Layer.mergeAll(
    withMutation(TaskStore, mutation.store),
    withMutation(RunQueue, (queue) => inOrder(world, mutation.queue?.(queue, world.tables) ?? queue)),
    withMutation(WebhookStore, mutation.webhooks),
    withMutation(RevocationRepository, mutation.revocations),
    world.shards === undefined
      ? Layer.merge(Layer.succeed(Changes, world.changes), TaskOwnership.layerAlone)
      : yield* Effect.provideService(world.shards.seat(name, node), Scope.Scope, scope)
  )
  const client = CoreClient.layer({ url: "http://core", tokens: [], eventsUrl: "http://service/events" })
  const engine = TaskEngine.layerWith(
    mutation.actors === undefined ? TaskActors.layer : Layer.provide(mutation.actors, TaskActors.layer)
  )
  const layer = engine.pipe(
    Layer.provide([Layer.provide(client, transport), sender, store, settings(world), plainSecrets]),
    Layer.provide([NodeCrypto.layerHmac, dice.layerSecureRandom]),
    Layer.fresh
  )
  // A node that dies during its start never becomes ready.
  const built = yield* Deferred.make<Context.Context<Tasks | TokenRevocations>, DeliveryError>()
  yield* Layer.buildWithScope(layer, scope).pipe(
    Effect.exit,
    Effect.flatMap((exit) => Exit.isSuccess(exit) ? Deferred.succeed(built, exit.value) : kill),
    Effect.forkDetach
  )
  const context = yield* Effect.raceFirst(
    Deferred.await(built),
    Effect.andThen(Deferred.await(died), Effect.fail(new DeliveryError()))
  )
  yield* recorder.note(name, "is up")

  const call = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      const answered = yield* Deferred.make<A, E | DeliveryError>()
      // In a fiber of its own, so that the caller does not wait for a dead node.
      yield* outward(effect).pipe(
        Effect.catchDefect((defect) =>
          Effect.andThen(recorder.note(name, `answers 500: ${defect}`), Effect.fail(new DeliveryError()))
        ),
        Effect.mapError((error) => error instanceof StoreUnavailable ? new DeliveryError() : error),
        Effect.exit,
        Effect.flatMap((exit) => Deferred.done(answered, exit)),
        Effect.forkDetach
      )
      const noAnswer = Effect.fail(new DeliveryError())
      return yield* Deferred.await(answered).pipe(
        Effect.raceFirst(Effect.andThen(Deferred.await(died), noAnswer)),
        Effect.timeoutOrElse({ duration: "30 seconds", orElse: () => noAnswer })
      )
    })

  const result: Node = Object.assign(node, {
    name,
    tasks: Context.get(context, Tasks),
    revocations: { check: mutation.check ?? Context.get(context, TokenRevocations).check },
    call,
    kill,
    freeze: (millis: number) =>
      Effect.gen(function*() {
        node.isFrozen = true
        yield* recorder.note(name, `is frozen for ${millis} ms`)
        yield* awake.close
        yield* noteFault
        yield* changed
        yield* Effect.sleep(millis)
        node.isFrozen = false
        node.awakeSince = yield* Clock.currentTimeMillis
        yield* awake.open
        yield* noteFault
        yield* changed
        if (node.isUp) yield* recorder.note(name, "wakes")
      }),
    stop: Effect.suspend(() => {
      node.isUp = false
      isStopping = true
      const stopped = Effect.sync(() => {
        isStopping = false
      })
      return Effect.andThen(
        Effect.andThen(recorder.note(name, "is stopped"), changed),
        Effect.forkDetach(Effect.andThen(Scope.close(scope, Exit.void), stopped))
      )
    })
  })
  return result
})
