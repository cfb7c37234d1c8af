/**
 * Whether polls would find anything, asked for all of them in one statement, so that an idle node hardly uses its database. What is due
 * within seconds counts as pending, so that no poll is later than without it. While tasks change and without a database every poll
 * has work: beside an old snapshot the question reads all entries of rows that have left a queue.
 */
import { Context, Effect, Layer, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import * as Worker from "../timing/Worker.ts"
import { RemoteChanges } from "./RemoteChanges.ts"
import { TaskNotifications } from "./TaskNotifications.ts"

/** Milliseconds without a change of a task after which polls may rest. */
const activeFor = 3000
/** Milliseconds in the database after which a question costs more than the polls. */
const maxCost = 20
/** Milliseconds for which polls do without an answer that was dear or did not come. */
const afterCostly = 60_000
const timeout = "2 seconds"
/** Milliseconds for which an answer holds; less than the shortest interval of a poll, so that each interval has a new one. */
const maxAge = 900
/** The same while nothing is pending and other nodes' changes arrive. */
const maxQuietAge = 2900
/** Changes nothing, but fails where writes do: on an idle node nothing else shows that the database has become read-only. */
const writes = "WITH written AS (UPDATE core_stops SET attempts = attempts WHERE false)"
/** Longer than the longest age of an answer and the interval of a poll together. */
const soon = "statement_timestamp() + interval '5 seconds'"

/** After the columns before it, which are computed in their order. */
const cost = "extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 * 1000"

export const PendingWork = Context.Reference<{
  /** Adds a kind of work: `FROM …` of rows that a poll would find. `soon` is the moment until which they are due. */
  readonly add: (kind: string, from: (soon: string) => ReadonlyArray<string>) => void
  /** Whether there is work of a kind, or may be. */
  readonly of: (kind: string) => Worker.Demand
}>("async-task-service/services/store/PendingWork", {
  defaultValue: () => ({ add: () => {}, of: () => Worker.always })
})

export const layer = Layer.effect(
  PendingWork,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const notifications = yield* TaskNotifications
    const { reception } = yield* RemoteChanges
    const kinds = new Map<string, string>()
    const oneByOne = Semaphore.makeUnsafe(1).withPermits(1)
    let found: Readonly<Record<string, unknown>> = {}
    let askedAt = -Infinity
    /** Changes of tasks by this node, and messages of others about theirs. */
    let published = 0
    let known = -1
    let activeUntil = -Infinity
    yield* notifications.relay(() => {
      published++
    })

    const changes = () => published + reception.received
    const isQuiet = () => reception.isAlive && !Object.values(found).includes(true)

    /** Asks, unless the last answer holds and is not from before `changedAt`. */
    const ask = Effect.fnUntraced(function*(changedAt: number) {
      const at = yield* monotonicMillis
      if (changes() !== known) {
        known = changes()
        activeUntil = at + activeFor
      }
      if (at < activeUntil) {
        found = {}
        askedAt = -Infinity
        return
      }
      if (askedAt > changedAt && at - askedAt < (isQuiet() ? maxQuietAge : maxAge)) return
      const columns = Array.from(kinds, ([kind, condition]) => `${condition} AS "${kind}"`)
      // A question that fails, as it does while a table is locked, is not repeated by each poll.
      activeUntil = at + afterCostly
      found = {}
      const statement = sql.unsafe<Record<string, unknown>>(`${writes} SELECT ${columns.join(", ")}, ${cost} AS cost`)
      const [row = {}] = yield* Effect.timeout(statement, timeout)
      found = row
      askedAt = at
      if (Number(row["cost"]) <= maxCost) activeUntil = -Infinity
    })

    return {
      add: (kind, from) => {
        kinds.set(kind, `(${from(soon).map((rows) => `EXISTS (SELECT ${rows})`).join(" OR ")})`)
      },
      of: (kind) => {
        let changedAt = -Infinity
        return {
          isDue: Effect.suspend(() => oneByOne(ask(changedAt))).pipe(
            Effect.map(() => found[kind] !== false),
            // The poll itself reports an outage.
            Effect.catchCause((cause) => Effect.as(Effect.logDebug("pending work is unknown", cause), true))
          ),
          // The round may have left work for later.
          ran: Effect.map(monotonicMillis, (at) => {
            changedAt = at
          })
        }
      }
    }
  })
)
