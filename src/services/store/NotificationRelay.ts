/**
 * Carries `Changes` between the nodes of one database by NOTIFY. Nodes announce themselves on the same
 * channel, so that a single node sends nothing for a change. Lost notifications are repaired from the rows: by
 * `TaskWatch` for waiting requests, by `TaskSweeper` for the tasks of this node.
 */
import { PgPool } from "@effect/sql-pg"
import { Clock, Deferred, Duration, Effect, Layer, Queue } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import * as Backoff from "../../domain/Backoff.ts"
import { isTaskId, type TaskId } from "../../domain/Task.ts"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import { Changes } from "../signals/Changes.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import { rootCauseMessage } from "../telemetry/RootCause.ts"
import { retryForever } from "../timing/Retry.ts"
import * as Worker from "../timing/Worker.ts"
import { failWhenUnavailable } from "./sql/Queries.ts"
import { StoreHealth } from "./StoreHealth.ts"

const channel = "async_task_service"

/** Task ids in one payload, which holds at most 8,000 bytes; an id with its separator takes 37. */
const maxBatch = 200
const maxOutgoing = 10_000

const announceInterval = Duration.seconds(5)
/** Milliseconds of silence after which a node counts as gone. */
const maxSilence = 15_000
const reconnect = Backoff.schedule("100 millis", "1 second")
/** The longest that the start of the node waits for the channel. */
const startTimeout = Duration.seconds(5)
/** The longest that one attempt to listen takes, so that a session that hangs is replaced. */
const listenTimeout = Duration.seconds(15)
/** Milliseconds without an own announcement on the channel after which nothing seems to arrive on it: three announcements. */
const maxDeafness = 15_000
/** Milliseconds for which nothing arrives, although the database works, before that is reported. */
const minReported = 4000

/** `hello` announces a new node and requests a `here` from the others. `here` and `changed` get no response. */
type Kind = "hello" | "here" | "changed"

/** Reports once that nothing arrives although the database works, and once that it does again. */
const makeWatch = Effect.gen(function*() {
  const { reception } = yield* Changes
  const { problem } = yield* StoreHealth
  let receivedAt = yield* monotonicMillis
  /** The moment from which on nothing arrives although the database works. */
  let deafSince = receivedAt
  let failure: string | undefined
  yield* Metrics.notificationsArrive.observe(() => reception.problem === null ? 1 : 0)

  const check = Effect.gen(function*() {
    const at = yield* monotonicMillis
    reception.isAlive = failure === undefined && at - receivedAt < maxDeafness
    if (reception.isAlive || problem() !== null) deafSince = at
    if (at - deafSince < minReported || reception.problem !== null) return
    reception.problem = failure === undefined ? "do not arrive" : "LISTEN fails"
    const reason = failure === undefined ? "" : `, LISTEN fails: ${failure}`
    yield* Effect.logWarning(
      `Notifications of other nodes do not arrive${reason}. This node polls for their changes and is up to 5 s late`
    )
  })

  return {
    check,
    received: Effect.gen(function*() {
      receivedAt = yield* monotonicMillis
      failure = undefined
      reception.isAlive = true
      if (reception.problem === null) return
      reception.problem = null
      yield* Effect.logInfo("Notifications of other nodes arrive again")
    }),
    lost: (error: unknown) =>
      Effect.sync(() => {
        reception.isAlive = false
        failure = rootCauseMessage(error)
      })
  }
})

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const pool = yield* PgPool.PgPool
    const changes = yield* Changes
    const { mayHaveGaps, reception } = changes
    const random = yield* SecureRandom.SecureRandom
    const self = yield* random.uuidV4()
    /** Other nodes, with the moment of the last message from each, in milliseconds. */
    const nodes = new Map<string, number>()
    const outgoing = yield* Queue.sliding<TaskId>(maxOutgoing)
    const watch = yield* makeWatch

    const send = (kind: Kind, uuids: Iterable<TaskId> = []) =>
      sql`SELECT pg_notify(${channel}, ${[kind, self, ...uuids].join(" ")})`

    const receive = Effect.fnUntraced(function*(payload: string) {
      const [kind, node, ...uuids] = payload.split(" ")
      if (node === self) return yield* watch.received
      if (node === undefined) return
      if (kind === "changed") reception.received++
      nodes.set(node, yield* Clock.currentTimeMillis)
      if (kind === "hello") {
        // The sender did not know about us, so it may have skipped us: rescan.
        yield* mayHaveGaps.open
        yield* send("here")
      }
      Metrics.clusterNotifications.add(uuids.length, "received")
      yield* Effect.forEach(uuids.filter(isTaskId), changes.receive, { discard: true })
    })

    const listening = yield* Deferred.make<void>()
    const listen = Effect.scoped(Effect.gen(function*() {
      const received = yield* Effect.timeout(
        Effect.tap(Effect.flatMap(pool.reserve, (session) => session.listen(channel)), send("hello")),
        listenTimeout
      )
      yield* Deferred.succeed(listening, undefined)
      yield* mayHaveGaps.open
      return yield* Effect.forever(Effect.flatMap(Queue.take(received), ({ payload }) => receive(payload)))
    }))
    const announce = Effect.gen(function*() {
      yield* watch.check
      const now = yield* Clock.currentTimeMillis
      for (const [node, seenAt] of nodes) if (now - seenAt > maxSilence) nodes.delete(node)
      yield* failWhenUnavailable(send("here"))
    })
    const pass = Effect.flatMap(Queue.takeBetween(outgoing, 1, maxBatch), (uuids) => {
      const changed = new Set(uuids)
      Metrics.clusterNotifications.add(changed.size, "sent")
      return retryForever(failWhenUnavailable(send("changed", changed)))
    })

    yield* changes.relay((uuid) => {
      if (nodes.size > 0) Queue.offerUnsafe(outgoing, uuid)
    })
    yield* Effect.forkScoped(Effect.retry(Effect.tapError(listen, watch.lost), reconnect))
    yield* Worker.make({ name: "the announcement of this node", runOnce: announce, interval: announceInterval })
    yield* Effect.forkScoped(Effect.forever(pass))
    yield* Effect.timeoutOption(Deferred.await(listening), startTimeout)
  })
)
