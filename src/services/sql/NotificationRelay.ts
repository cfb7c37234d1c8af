/**
 * Carries `TaskNotifications` between nodes on one database by NOTIFY. Nodes greet each other on the same channel, so that
 * a node without others sends nothing for a change. What gets lost on the way is found by comparing with the rows: by
 * `TaskWatch` for those who wait, by `TaskSweeper` for the tasks of this node.
 */
import { PgPool } from "@effect/sql-pg"
import { Clock, Deferred, Duration, Effect, Layer, Queue, Schedule, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { SqlClient } from "effect/sql"
import { TaskId } from "../../domain/Task.ts"
import * as Metrics from "../Metrics.ts"
import { persistently } from "../Persistently.ts"
import { TaskNotifications } from "../TaskNotifications.ts"

const channel = "async_task_service"

/** A payload holds 8,000 bytes, a task's id 37. */
const maxBatch = 200
const maxOutgoing = 10_000

const greetingInterval = Duration.seconds(5)
/** Milliseconds of silence after which a node counts as gone. */
const maxSilence = 15_000
const reconnect = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("1 second")])
const startPatience = Duration.seconds(5)

/** `hello` asks for an answer; `here` and `changed` do not. */
type Kind = "hello" | "here" | "changed"

const isTaskId = Schema.is(TaskId)

export const layer = Layer.effectDiscard(
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const pool = yield* PgPool.PgPool
    const notifications = yield* TaskNotifications
    const random = yield* SecureRandom.SecureRandom
    const self = yield* random.uuidV4()
    /** Other nodes, with the moment each was last heard of, in milliseconds. */
    const nodes = new Map<string, number>()
    const outgoing = yield* Queue.sliding<TaskId>(maxOutgoing)

    const send = (kind: Kind, uuids: Iterable<TaskId> = []) =>
      sql`SELECT pg_notify(${channel}, ${[kind, self, ...uuids].join(" ")})`

    const receive = Effect.fnUntraced(function*(payload: string) {
      const [kind, node, ...uuids] = payload.split(" ")
      if (node === undefined || node === self) return
      nodes.set(node, yield* Clock.currentTimeMillis)
      if (kind === "hello") {
        // Whoever could not hear us may have told of nothing.
        yield* notifications.missed.open
        yield* send("here")
      }
      Metrics.hints.add(uuids.length, "heard")
      yield* Effect.forEach(uuids.filter(isTaskId), notifications.hear, { discard: true })
    })

    const listening = yield* Deferred.make<void>()
    const listen = Effect.scoped(Effect.gen(function*() {
      const received = yield* Effect.flatMap(pool.reserve, (session) => session.listen(channel))
      yield* send("hello")
      yield* Deferred.succeed(listening, undefined)
      yield* notifications.missed.open
      return yield* Effect.forever(Effect.flatMap(Queue.take(received), ({ payload }) => receive(payload)))
    }))
    const quietly = Effect.catchCause((cause) => Effect.logDebug("a notification between nodes was not sent", cause))

    const greet = Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      for (const [node, heard] of nodes) if (now - heard > maxSilence) nodes.delete(node)
      yield* send("here")
    })
    const pass = Effect.flatMap(Queue.takeBetween(outgoing, 1, maxBatch), (uuids) => {
      const changed = new Set(uuids)
      Metrics.hints.add(changed.size, "told")
      return persistently(Effect.orDie(send("changed", changed)))
    })

    yield* notifications.relay((uuid) => {
      if (nodes.size > 0) Queue.offerUnsafe(outgoing, uuid)
    })
    yield* Effect.forkScoped(Effect.retry(listen, reconnect))
    yield* Effect.forkScoped(Effect.repeat(quietly(greet), Schedule.spaced(greetingInterval)))
    yield* Effect.forkScoped(Effect.forever(quietly(pass)))
    yield* Effect.timeoutOption(Deferred.await(listening), startPatience)
  })
)
