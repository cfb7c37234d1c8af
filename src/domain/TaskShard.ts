/**
 * Assigns tasks to shards, which the nodes of a cluster divide among themselves. The last 16 bits of a task's id
 * determine its shard. This rule must never change, because nodes of different versions have to agree on it.
 */
import { TaskId } from "./Task.ts"

/** One of `count` shards, from 0. */
export type TaskShard = number

export const count = 60

const bits = (id: TaskId) => Number.parseInt(id.slice(-4), 16)

export const of = (id: TaskId): TaskShard => bits(id) % count

/** The id that is nearest to `id` in one of `shards`, which must not be empty. */
export const moveTo = (id: TaskId, shards: ReadonlyArray<TaskShard>): TaskId => {
  const value = bits(id)
  const shard = shards[value % shards.length] ?? of(id)
  const moved = value - (value % count) + shard
  const inRange = moved > 0xffff ? moved - count : moved
  return TaskId.make(id.slice(0, -4) + inRange.toString(16).padStart(4, "0"))
}
