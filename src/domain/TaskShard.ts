/**
 * The shards that tasks are dealt to, so that nodes can divide them among themselves. A task's shard is told by the last
 * 16 bits of its id and never changes; nodes of different versions must agree on it, so neither may this rule.
 */
import { TaskId } from "./Task.ts"

/** One of `count` shards, from 0. */
export type TaskShard = number

export const count = 60

const bits = (id: TaskId) => Number.parseInt(id.slice(-4), 16)

export const of = (id: TaskId): TaskShard => bits(id) % count

/** The id that is nearest to `id` in one of the `shards`, of which there is at least one. */
export const moveTo = (id: TaskId, shards: ReadonlyArray<TaskShard>): TaskId => {
  const value = bits(id)
  const shard = shards[value % shards.length] ?? of(id)
  const moved = value - (value % count) + shard
  const inRange = moved > 0xffff ? moved - count : moved
  return TaskId.make(id.slice(0, -4) + inRange.toString(16).padStart(4, "0"))
}
