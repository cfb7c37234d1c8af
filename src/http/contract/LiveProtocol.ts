/** The calls between nodes about live texts, below `/internal/live`. Other systems do not use it. */
import { Schema } from "effect"
import * as RawJson from "../../domain/json/RawJson.ts"
import * as Limits from "../../domain/Limits.ts"
import { RunId, TaskId, TaskStatus } from "../../domain/Task.ts"

/** The calls, for the internal listener. */
export const routes = [
  { method: "GET", path: "/internal/live/shards" },
  { method: "GET", path: "/internal/live/texts" },
  { method: "POST", path: "/internal/live/reports" },
  { method: "POST", path: "/internal/live/follow" }
]

const Units = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** The shards of a node. */
export const Shards = Schema.Struct({ shards: Schema.Array(Schema.Int) })

/** Reports of cores, for the owner of their tasks. A text may have halves of surrogate pairs. */
export const Reports = Schema.Struct({
  reports: Schema.Array(Schema.Struct({
    uuid: TaskId,
    runId: RunId,
    eventId: Schema.String,
    appends: Schema.optional(
      Schema.Array(Schema.Struct({ index: Units, text: RawJson.Text })).check(Schema.isMaxLength(2 * Limits.appends))
    ),
    turn: Schema.optional(
      Schema.Struct({ offset: Units, text: RawJson.Text, revision: Schema.Int, next: Schema.NullOr(Units) })
    )
  }))
})

export const Takens = Schema.Struct({
  results: Schema.Array(Schema.Union([
    Schema.Struct({
      _tag: Schema.Literal("Taken"),
      status: TaskStatus,
      applied: Schema.Boolean,
      next: Schema.NullOr(Schema.Int)
    }),
    Schema.Struct({ _tag: Schema.Literal("Superseded"), status: TaskStatus }),
    Schema.Struct({ _tag: Schema.Literal("NotFound") }),
    Schema.Struct({ _tag: Schema.Literal("NotMine") })
  ]))
})

/** The texts that a stream of `/internal/live/texts` has from now on. */
export const Follow = Schema.Struct({
  stream: Schema.String,
  tasks: Schema.Array(TaskId),
  unfollow: Schema.Array(TaskId)
})

/** A line of such a stream. */
export const Line = Schema.Union([
  Schema.Struct({ task: TaskId, isGone: Schema.Literal(true) }),
  Schema.Struct({
    task: TaskId,
    version: Schema.Int,
    isWhole: Schema.Boolean,
    base: Schema.Int,
    runId: Schema.NullOr(RunId),
    offset: Units,
    text: Schema.String
  })
])
