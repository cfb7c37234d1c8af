import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { TaskId } from "../../src/domain/Task.ts"
import * as TaskShard from "../../src/domain/TaskShard.ts"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const Shards = Schema.NonEmptyArray(between(0, TaskShard.count - 1))
const front = "01a1ff43-0315-7617-8248-b328cdfd"

describe("a task's shard", () => {
  it("is the same in every version of the code", () => {
    assert.strictEqual(TaskShard.count, 60)
    assert.strictEqual(TaskShard.of(TaskId.make(`${front}e5ef`)), 0xe5ef % 60)
  })

  it.prop(
    "can be chosen when the id is created, among any set of shards",
    [between(0, 0xffff), Shards],
    ([bits, shards]) => {
      const moved = TaskShard.moveTo(TaskId.make(front + bits.toString(16).padStart(4, "0")), shards)
      assert.isTrue(Schema.is(TaskId)(moved))
      assert.include(shards, TaskShard.of(moved))
      assert.strictEqual(moved.slice(0, -4), front)
    }
  )
})
