/** Schemas of the queue, as operators see and change it. */
import { Schema } from "effect"
import { absentOr } from "../../domain/Fields.ts"
import * as Limits from "../../domain/Limits.ts"
import { described, momentOrNull } from "../contract/Described.ts"
import { Count } from "../contract/TaskSchemas.ts"
import { UnreachableView } from "./OperatorSchemas.ts"

const numbers = {
  running: described(Count, "Runs that the core has: dispatched, and not interrupted or ended."),
  waiting: described(Count, "Runs that wait for room."),
  oldest_waiting_since: momentOrNull("Since when the oldest of them waits: its creation, or its tool results.")
}

export const QueuedAssistantView = Schema.Struct({
  assistant_id: Schema.Int.annotate({ description: "The assistant." }),
  name: described(Schema.NullOr(Schema.String), "Its name, if the backend has listed it to a user lately."),
  runs: described(
    Schema.NullOr(Count),
    "The most runs of it that the core is given; null: `runs_per_assistant` of the queue holds."
  ),
  ...numbers,
  paused: described(Schema.Boolean, "True while its new runs are held. Resumed ones go on.")
}).annotate({ identifier: "QueuedAssistant", description: "The queue of an assistant." })

export const QueueView = Schema.Struct({
  runs: described(Schema.NullOr(Count), "`CORE_RUNS`: the most runs that the core is given; null without a limit."),
  runs_per_assistant: described(Schema.NullOr(Count), "`CORE_RUNS_PER_ASSISTANT`; null without a limit."),
  core_busy_since: momentOrNull("Since when the core says to the node that answers that it has no room; else null."),
  core_unreachable: described(UnreachableView, "While the node that answers cannot reach the core; else null."),
  ...numbers,
  assistants: described(
    Schema.Array(QueuedAssistantView),
    "Assistants with runs, a limit or a pause: those with most waiting first, 200 at most."
  )
}).annotate({ identifier: "Queue", description: "The runs that the core has, and those that wait for room." })

export const ChangeAssistantBody = Schema.Struct({
  runs: Schema.optionalKey(
    Schema.NullOr(
      Schema.Int.check(
        Schema.isBetween({ minimum: 1, maximum: Limits.coreRuns }, {
          expected: `an integer between 1 and ${Limits.coreRuns}, or null`
        })
      )
    )
  ).annotate({
    description: "The most runs of the assistant that the core is given; null: `CORE_RUNS_PER_ASSISTANT` holds again."
  }),
  paused: absentOr(Schema.Boolean, "True holds its new runs.")
}).annotate({ identifier: "ChangeQueuedAssistant", description: "Absent fields stay as they are." })
