/**
 * Simulates the ownership of `runtime/Cluster`: the shards of a dead node are reassigned when its lease expires, a
 * frozen node believes in its shards until it wakes, and shards in transfer have no owner for a moment. Notifications
 * between nodes are late, and sometimes lost with their connection.
 */
import { Clock, Context, Duration, Effect, Latch, Layer, type Scope } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { TaskOwnership } from "../../src/services/cluster/TaskOwnership.ts"
import { Changes } from "../../src/services/signals/Changes.ts"
import type { Dice } from "./Dice.ts"

/** Milliseconds. */
const tick = 250
const lease = 4000
const longestNotification = 100
const reconnect = 3000

interface Liveness {
  readonly isUp: boolean
  readonly isFrozen: boolean
}

interface Seat {
  readonly name: string
  readonly node: Liveness
  readonly changed: Latch.Latch
  readonly changes: Changes["Service"]
  believed: ReadonlyArray<TaskShard.TaskShard>
  lastSeen: number
}

const every = Array.from({ length: TaskShard.count }, (_, shard) => shard)

export interface Shards {
  /** The services of one node. */
  readonly seat: (
    name: string,
    node: Liveness
  ) => Effect.Effect<Layer.Layer<TaskOwnership | Changes>, never, Scope.Scope>
}

/** `published` receives the changes that nodes commit. Notifications are lost only while `isRough`. */
export const make = Effect.fnUntraced(function*(
  dice: Dice,
  published: Changes["Service"],
  isRough: () => boolean,
  scope: Scope.Scope
) {
  const seats: Array<Seat> = []
  const holders = new Map<TaskShard.TaskShard, Seat>()

  const believe = (seat: Seat, shards: ReadonlyArray<TaskShard.TaskShard>) => {
    if (shards.length === seat.believed.length && shards.every((shard, index) => seat.believed[index] === shard)) return
    seat.believed = shards
    seat.changed.openUnsafe()
  }

  const assign = Effect.map(Clock.currentTimeMillis, (at) => {
    for (const seat of seats) if (seat.node.isUp && !seat.node.isFrozen) seat.lastSeen = at
    const members = seats.filter(({ lastSeen }) => at - lastSeen < lease)
    for (const [shard, holder] of holders) if (!members.includes(holder)) holders.delete(shard)
    for (const seat of members) {
      if (seat.lastSeen !== at) continue
      const isAssigned = (shard: TaskShard.TaskShard) => members[shard % members.length] === seat
      for (const shard of every) {
        if (holders.get(shard) === seat && !isAssigned(shard)) holders.delete(shard)
        else if (!holders.has(shard) && isAssigned(shard) && dice.chance(0.7)) holders.set(shard, seat)
      }
      believe(seat, every.filter((shard) => holders.get(shard) === seat))
    }
  })
  yield* Effect.forkIn(Effect.forever(Effect.delay(assign, Duration.millis(tick))), scope)

  const notify = (seat: Seat, uuid: TaskId) =>
    isRough() && dice.chance(0.02)
      ? Effect.delay(
        seat.changes.mayHaveGaps.open,
        Duration.millis(dice.delay(reconnect))
      )
      : Effect.delay(
        seat.changes.receive(uuid),
        Duration.millis(dice.delay(longestNotification))
      )
  const run = Effect.runForkWith(yield* Effect.context())
  const { publish, webhooks } = published
  yield* published.relay((uuid) => {
    for (const seat of seats) if (seat.node.isUp) run(notify(seat, uuid))
  })

  const shards: Shards = {
    seat: Effect.fnUntraced(function*(name, node) {
      const own = Context.get(yield* Layer.build(Layer.fresh(Changes.layer)), Changes)
      const changed = Latch.makeUnsafe()
      const changes = Changes.of({ ...own, publish, webhooks })
      const seat: Seat = { name, node, changed, changes, believed: [], lastSeen: yield* Clock.currentTimeMillis }
      seats.push(seat)
      const ownership = TaskOwnership.of({
        isMine: (id) => seat.believed.includes(TaskShard.of(id)),
        ownedSince: (id) => seat.believed.includes(TaskShard.of(id)) ? 0 : Infinity,
        shards: () => seat.believed,
        changed: Effect.andThen(changed.await, changed.close),
        drain: Effect.void,
        takeIn: Effect.void,
        isDrained: () => false
      })
      return Layer.merge(Layer.succeed(Changes, changes), Layer.succeed(TaskOwnership, ownership))
    })
  }
  return shards
})
