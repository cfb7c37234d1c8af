/** Two nodes of live text on one store in memory, which pass reports on to the owner of a task as processes do, but in virtual time. */
import { Context, Duration, Effect, Exit, Layer, Scope, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { fromValue } from "../../../src/domain/json/OpaqueJson.ts"
import type { RunId, TaskHead, TaskId } from "../../../src/domain/Task.ts"
import { TaskEvent } from "../../../src/domain/Task.ts"
import { now } from "../../../src/domain/Timestamp.ts"
import { TaskOwnership } from "../../../src/services/cluster/TaskOwnership.ts"
import { LiveBytes, Memory } from "../../../src/services/limits/Memory.ts"
import { type Handed, Peers, type Taken } from "../../../src/services/live/LivePeers.ts"
import { LiveReading, type Place } from "../../../src/services/live/LiveReading.ts"
import { LiveTexts } from "../../../src/services/live/LiveTexts.ts"
import { Changes } from "../../../src/services/signals/Changes.ts"
import * as RevocationRepositoryMemory from "../../../src/services/store/revocations/RevocationRepositoryMemory.ts"
import { TaskStore } from "../../../src/services/store/tasks/TaskStore.ts"
import * as TaskStoreMemory from "../../../src/services/store/tasks/TaskStoreMemory.ts"
import { TaskWatch } from "../../../src/services/tasks/TaskWatch.ts"
import { Turns } from "../../../src/services/tasks/Turns.ts"
import { layerFormats } from "../WebhookStoreContract.ts"

export const layerStore = TaskStoreMemory.layer.pipe(
  Layer.provide(layerFormats),
  Layer.provideMerge([Changes.layer, RevocationRepositoryMemory.layer, SecureRandom.layerWebCrypto])
)

/** A received event of a stream. */
export interface Received {
  readonly id: Place
  readonly text?: { readonly offset: number; readonly text: string; readonly replaced?: true }
  readonly type?: string
  readonly status?: string
}

interface Node {
  readonly scope: Scope.Closeable
  readonly texts: LiveTexts["Service"]
  readonly reading: LiveReading["Service"]
  readonly changes: Changes["Service"]
}

export const turnOf = (text: string) => fromValue({ output: [{ type: "text", text }], messages: [], metadata: {} })

export const makeNodes = Effect.fnUntraced(function*(liveBytes = 64 * 1024 * 1024) {
  const reads = yield* TaskStore
  const writes = yield* TaskStore
  const store = yield* Effect.context<TaskStore>()
  const nodes: Array<Node> = []
  let owner = 0
  let ownedSince = 0

  const other = (index: number) => owner === index ? undefined : nodes[owner]

  const commit = Effect.fnUntraced(
    function*(
      at: number,
      uuid: TaskId,
      event: TaskEvent,
      fence?: { readonly runId: RunId; readonly coreEventId: string }
    ) {
      const outcome = yield* writes.commit(uuid, event, yield* now, fence)
      if (!("head" in outcome)) return yield* Effect.die(new Error("an unknown task"))
      for (const [index, { changes }] of nodes.entries()) {
        yield* index === at ? changes.publish(uuid, outcome.head) : changes.receive(uuid)
      }
      return outcome
    }
  )
  const sign = (at: number, { eventId, runId, uuid }: Pick<Handed, "uuid" | "runId" | "eventId">) =>
    Effect.flatMap(
      commit(at, uuid, TaskEvent.cases.Accepted.make({}), { runId, coreEventId: eventId }),
      ({ _tag, head }) => _tag === "Superseded" ? Effect.fail("superseded" as const) : Effect.succeed(head)
    )

  const peersOf = (index: number): typeof Peers.Service => ({
    hand: (handed) =>
      Effect.suspend(() => {
        const node = other(index)
        if (node === undefined) return Effect.undefined
        return node.texts.take(handed, sign(owner, handed)).pipe(
          Effect.catch(() => Effect.succeed<Taken>({ _tag: "Superseded", status: "processing" }))
        )
      }),
    follow: (uuid, onChange) =>
      Effect.forkScoped(Effect.forever(Effect.gen(function*() {
        const node = other(index)
        const [head] = yield* reads.heads([uuid])
        if (node === undefined || head === undefined) return yield* Effect.sleep(Duration.millis(250))
        const scope = yield* Scope.make()
        const followed = { isLost: false }
        yield* node.texts.feed(head, (change) => {
          if (!followed.isLost && !onChange(change)) followed.isLost = true
        }).pipe(Effect.provideService(Scope.Scope, scope))
        while (!followed.isLost && other(index) === node) yield* Effect.sleep(Duration.millis(5))
        yield* Scope.close(scope, Exit.void)
        if (!followed.isLost) onChange(null)
      }))).pipe(Effect.asVoid, Effect.orDie)
  })

  const start = Effect.fnUntraced(function*(index: number) {
    const scope = yield* Scope.make()
    const layerOwnership = Layer.succeed(TaskOwnership, {
      isMine: () => owner === index,
      ownedSince: () => owner === index ? ownedSince : Infinity,
      shards: () => undefined,
      others: () => [],
      changed: Effect.never,
      drain: Effect.void,
      takeIn: Effect.void,
      isDrained: () => false
    })
    const layer = LiveReading.layer.pipe(
      Layer.provideMerge([TaskWatch.layer, LiveTexts.layer]),
      Layer.provideMerge([Turns.layer, layerOwnership]),
      Layer.provideMerge([
        Memory.layer,
        Changes.layer,
        Layer.succeed(Peers, peersOf(index)),
        Layer.succeed(LiveBytes, liveBytes)
      ]),
      Layer.provide(SecureRandom.layerWebCrypto),
      Layer.provide(
        Layer.succeedContext(Context.omit(Changes)(store as Context.Context<TaskStore | Changes>))
      )
    )
    const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
    nodes[index] = {
      scope,
      texts: Context.get(context, LiveTexts),
      reading: Context.get(context, LiveReading),
      changes: Context.get(context, Changes)
    }
  })
  yield* start(0)
  yield* start(1)
  yield* Effect.addFinalizer(() => Effect.forEach(nodes, ({ scope }) => Scope.close(scope, Exit.void)))

  /** As `Tasks.report`. */
  const report = Effect.fnUntraced(
    function*(
      at: number,
      run: { readonly uuid: TaskId; readonly runId: RunId; readonly eventId: string },
      event: TaskEvent | undefined,
      appends?: Handed["appends"],
      nextAppend?: number
    ) {
      const { texts } = nodes[at]!
      if (event === undefined) return yield* texts.append(run, appends ?? [], sign(at, run))
      const coreEventId = `${event._tag}/${run.eventId}`
      const { _tag, head } = yield* commit(at, run.uuid, event, { runId: run.runId, coreEventId })
      const turn = "turn" in event ? event.turn : null
      if (turn === null || (nextAppend === undefined && !texts.has(run.uuid))) return undefined
      const stored = { ...run, revision: head.revision }
      const next = _tag === "Applied" ? yield* texts.turn(stored, turn, nextAppend) : undefined
      return { status: head.status, applied: _tag === "Applied", next: next ?? (yield* texts.nextOf(stored)) }
    }
  )

  return {
    nodes,
    commit,
    report,
    /** The other node owns the task. With `isKilled` the last owner loses its memory, and whoever reads there is cut off. */
    move: Effect.fnUntraced(function*(isKilled: boolean) {
      const last = owner
      owner = 1 - owner
      ownedSince = Math.ceil(Number(yield* now) / 1000) + 1
      if (!isKilled) return undefined
      yield* Scope.close(nodes[last]!.scope, Exit.void)
      yield* start(last)
      return last
    }),
    owner: () => owner,
    /** Reads until the stream ends or the scope closes. */
    read: Effect.fnUntraced(function*(at: number, uuid: TaskId, after: Place, take: (received: Received) => void) {
      const [head] = yield* reads.heads([uuid])
      const stream = yield* nodes[at]!.reading.read<Received | undefined>(head as TaskHead, after, {
        text: (text, id) => ({ id, text }),
        event: ({ status, type }, id) => ({ id, status, type }),
        idle: undefined
      })
      yield* Stream.runForEach(stream, (received) => Effect.sync(() => received !== undefined && take(received)))
    })
  }
})
