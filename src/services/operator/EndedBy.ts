/** The cause of a task's end, as the author of its last event says (`TaskChange`). */
import { Effect, Option } from "effect"
import { isTerminal } from "../../domain/Task.ts"
import { format, type Timestamp } from "../../domain/Timestamp.ts"
import type { TaskLink } from "../Extensions.ts"
import { make as makeQueries, micros, query } from "../store/sql/Queries.ts"
import { RecordedEvent } from "../store/tasks/TaskStore.ts"

export interface EndedBy {
  /** `user`, `operator`, `rpc`, `core`, or what passed: `time_limit`, `acceptance_timeout`, `revocation`. */
  readonly by: string
  /** The name of an operator, or of the token of a call. */
  readonly name: string | null
  readonly bulkId: string | null
  readonly at: Timestamp
}

/** Null while the task has not ended. */
export const of = (event: Pick<RecordedEvent, "status" | "author" | "occurredAt"> | undefined): EndedBy | null => {
  if (event === undefined || !isTerminal(event.status)) return null
  const [, by = "core", name = null, bulkId = null] =
    /^([a-z_]+)(?::(.*?)(?: bulk:([0-9a-f-]{36}))?)?$/s.exec(event.author ?? "core") ?? []
  return { by, name, bulkId, at: event.occurredAt }
}

const last = query(
  RecordedEvent,
  `SELECT revision, type, status, ${micros("occurred_at")} AS "occurredAt", actor AS author FROM task_events
  WHERE task_uuid = $1::uuid ORDER BY revision DESC LIMIT 1`
)

/** `GET /api/tasks/{uuid}?include=ended_by`: users do not learn the names of operators. */
export const link = Effect.map(makeQueries, ({ first }): TaskLink => ({
  name: "ended_by",
  describe: (uuid) =>
    Effect.map(first(last, [uuid]), (event) => {
      const ended = of(Option.getOrUndefined(event))
      return ended === null ? null : { by: ended.by, at: format(ended.at) }
    })
}))
