/** Views of usage. */
import { Schema } from "effect"
import { usageSteps } from "../../services/usage/Usage.ts"
import { Count, Moment } from "../contract/TaskSchemas.ts"

/** Tokens of a task or of a period. */
const tokenCounts = {
  input_tokens: Count.annotate({ description: "Tokens that models read, cached ones included." }),
  output_tokens: Count.annotate({ description: "Tokens that models wrote, reasoning included." }),
  total_tokens: Count.annotate({ description: "Input and output, as the core added them." }),
  cached_input_tokens: Count.annotate({ description: "The part of the input that the provider had cached." }),
  reasoning_tokens: Count.annotate({ description: "The part of the output that is reasoning." })
}

/** The field that `include=usage` adds to a task. */
export const TaskUsageView = Schema.NullOr(
  Schema.Struct({
    ...tokenCounts,
    active_seconds: Count.annotate({ description: "Time in `processing`, without waiting." }),
    cost: Schema.NullOr(Schema.String).annotate({ description: "Plain decimal; null when nothing has a price." }),
    source: Schema.Literals(["reported", "none"]).annotate({ description: "`none`: the core reported no usage." }),
    is_final: Schema.Boolean.annotate({ description: "True when the task has ended." })
  }).annotate({ identifier: "TaskUsage", description: "Consumption of a task, as the core reported it." })
).annotate({
  description: "the consumption of the task; null until an interrupt or the end of the task."
})

const amounts = {
  tasks: Count.annotate({ description: "Tasks that ended in the period." }),
  ended: Schema.Struct({
    completed: Count.annotate({ description: "Completed tasks." }),
    failed: Count.annotate({ description: "Failed tasks." }),
    canceled: Count.annotate({ description: "Canceled tasks." })
  }).annotate({ description: "These tasks by their last status." }),
  ...tokenCounts,
  active_seconds: Count.annotate({ description: "Time in `processing`, without waiting." }),
  cost: Schema.NullOr(Schema.String).annotate({
    description: "Plain decimal: the sum of what has a price. Null when nothing has."
  }),
  unpriced_tokens: Count.annotate({ description: "Tokens that have no price." }),
  unmetered_tasks: Count.annotate({ description: "Tasks that ended without reported usage." })
}

const UsageTotals = Schema.Struct(amounts).annotate({
  identifier: "UsageTotals",
  description: "The sums over all buckets."
})

const UsageBucket = Schema.Struct({
  from: Moment,
  to: Moment.annotateKey({ description: "Exclusive." }),
  group: Schema.Struct({
    assistant: Schema.optionalKey(Schema.Finite).annotate({ description: "The assistant." }),
    model: Schema.optionalKey(Schema.NullOr(Schema.String)).annotate({
      description: "The model; null where the core named none."
    }),
    sub: Schema.optionalKey(Schema.String).annotate({ description: "The user; for operators only." })
  }).annotate({ description: "The keys of `group_by`." }),
  ...amounts
}).annotate({ identifier: "UsageBucket", description: "Usage of one period in UTC and one group." })

export const UsageView = Schema.Struct({
  data: Schema.Array(UsageBucket).annotate({ description: "By period, the largest groups first; without empty ones." }),
  totals: UsageTotals,
  meta: Schema.Struct({
    from: Moment,
    to: Moment,
    step: Schema.Literals(usageSteps).annotate({ description: "The length of a bucket." }),
    currency: Schema.NullOr(Schema.String).annotate({ description: "The currency of all costs; null without prices." }),
    complete_until: Moment.annotateKey({ description: "Everything before this moment is final." })
  }).annotate({ description: "The query that was answered." })
}).annotate({ identifier: "Usage", description: "Usage by period and group." })
