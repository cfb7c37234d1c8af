/** The formats of webhooks that extensions add. A task has the name of its format, or null: the body is the task itself. */
import { Array as Arr, Context, Effect, Option } from "effect"
import type { OpaqueJson } from "../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import type { TaskId, TaskStatus } from "../../domain/Task.ts"
import type { Timestamp } from "../../domain/Timestamp.ts"

/** The change that a webhook reports. */
export interface ReportedChange {
  readonly uuid: TaskId
  readonly revision: number
  readonly status: TaskStatus
  readonly happenedAt: Timestamp
}

/** Returns the body of each webhook. A body depends on its change only, so that each attempt has the same bytes. */
export type CallbackFormat = (
  changes: ReadonlyArray<ReportedChange>
) => Effect.Effect<ReadonlyArray<OpaqueJson>, StoreUnavailable>

/** By name. */
export const CallbackFormats = Context.Reference<Readonly<Record<string, CallbackFormat>>>(
  "async-task-service/services/store/CallbackFormats",
  { defaultValue: () => ({}) }
)

/**
 * Returns the bodies of changes in a format. There are none without the format, or when it has a defect: the attempt of a change whose
 * body cannot be built alone either fails without a request.
 */
export const makeFormatted = Effect.map(
  CallbackFormats,
  (formats) =>
  (
    name: string,
    changes: ReadonlyArray<ReportedChange>
  ): Effect.Effect<ReadonlyArray<Option.Option<OpaqueJson>>, StoreUnavailable> => {
    const format = formats[name]
    const bodies = format === undefined ? Effect.die(new Error(`There is no webhook format ${name}`)) : format(changes)
    return bodies.pipe(
      Effect.map(Arr.map(Option.some)),
      Effect.catchDefect((cause) =>
        Effect.as(Effect.logError("webhooks have no body", cause), changes.map(() => Option.none()))
      ),
      Effect.annotateLogs({ taskIds: changes.map(({ uuid }) => uuid) })
    )
  }
)
