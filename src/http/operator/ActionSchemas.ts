/** Schemas of what operators do with many tasks at once, or with all that is kept of a user, and of the audit. */
import { Schema } from "effect"
import { absentOr, isAtMostCharacters } from "../../domain/Fields.ts"
import { JsonObject } from "../../domain/json/OpaqueJson.ts"
import * as RawJson from "../../domain/json/RawJson.ts"
import * as Limits from "../../domain/Limits.ts"
import { BulkAction, BulkState } from "../../services/operator/BulkStore.ts"
import { SilenceKind } from "../../services/operator/Silences.ts"
import { count, described, moment, momentOrNull, text, textOrNull } from "../contract/Described.ts"
import * as Tasks from "../contract/TaskSchemas.ts"
import { OperatorDeliveryView, OperatorTaskView } from "./OperatorSchemas.ts"

const { Count } = Tasks

export const rates = { minimum: 1, maximum: 1000, default: 50 } as const
/** Tasks or deliveries that a filter may name. */
export const maxIds = 1000
const maxActive = 10_000

const RequestedAction = BulkAction.pick(["cancel", "rerun", "redeliver", "delete"])

const reason = absentOr(
  Schema.String.check(isAtMostCharacters(Limits.cancelReasonLength)),
  `Why, for the audit; up to ${Limits.cancelReasonLength} characters. Canceled tasks have it in \`error\`.`
)

const bulkBody = <Filter extends Schema.Top>(filter: Filter) =>
  Schema.Struct({
    action: described(RequestedAction, "The change of all that match."),
    filter: described(
      filter,
      "Which tasks: any of `status`, `sub`, `assistant`, `error`, `fingerprint`, `label` (an object of metadata), `q`, `schedule`, `from`, `to`, "
        + `and \`ids\` (up to ${maxIds}), as in the search. Which webhooks, with \`redeliver\`: any of \`origin\`, \`error\`, \`status\`, \`sub\`, \`from\`, \`to\` and `
        + "`ids`. Without ids and `from` of the last 24 hours. An unknown name is refused."
    ),
    reason,
    rate: absentOr(
      Schema.Int.check(Schema.isBetween({ minimum: rates.minimum, maximum: rates.maximum })),
      `Tasks or webhooks in a second, ${rates.minimum} to ${rates.maximum}; ${rates.default} by default.`
    ),
    dry_run: absentOr(Schema.Boolean, "Only counts what matches, and shows the newest of it.")
  }).annotate({ identifier: "StartBulk", description: "An action on all tasks or webhooks that match." })

/** The filter is decoded apart, because an unknown name in it is an error. */
export const BulkBody = bulkBody(RawJson.AnyObject)
export const DocumentedBulkBody = bulkBody(JsonObject)

export const StartedBulkView = Schema.Struct({
  id: text("Identifies the action."),
  matched: count("Tasks or webhooks that matched when it began.")
}).annotate({ identifier: "StartedBulk", description: "The action has begun." })

export const DryRunView = Schema.Struct({
  matched: count("Tasks or webhooks that match."),
  sample: described(
    Schema.Array(Schema.Union([OperatorTaskView, OperatorDeliveryView])),
    "The newest 20 tasks or webhooks that match."
  )
}).annotate({ identifier: "BulkDryRun", description: "The tasks or webhooks that an action would change." })

export const BulkView = Schema.Struct({
  id: text("Identifies the action."),
  action: described(BulkAction, "The change that it makes."),
  filter: described(
    JsonObject,
    "As it was given, with its range. A user whose data were erased has a pseudonym."
  ),
  by: text("The operator, by the name of the token."),
  reason: textOrNull("Why."),
  rate: count("Tasks or webhooks in a second."),
  started_at: moment("When it began. What had been created or had ended by then is the set."),
  ended_at: momentOrNull("When it was done or stopped."),
  state: described(BulkState, "The state of the action."),
  matched: count("Tasks or webhooks that matched when it began."),
  done: count("Carried out."),
  skipped: count("Changed meanwhile, so that there was nothing to do."),
  failed: count("Not carried out, because of an error."),
  errors: described(
    Schema.Array(Schema.Struct({ id: text("The task or the webhook."), message: text("The error.") })),
    "The first 20 errors."
  ),
  files: described(
    Schema.optionalKey(Schema.Array(Schema.String)),
    "Of an erasure: ids of files of the assistant backend that the tasks named, 10,000 at most, for its own erasure."
  )
}).annotate({ identifier: "BulkAction", description: "An action on many tasks or webhooks." })

export const BulkListView = Schema.Struct({
  data: described(Schema.Array(BulkView), "The last 100, newest first.")
}).annotate({ identifier: "BulkActions", description: "The last bulk actions." })

const AuditLineView = Schema.Struct({
  id: text("Identifies the line."),
  at: moment("When it was done."),
  operator: text("The name of the token, of `INTERNAL_TOKEN_NAMES` or `OPERATOR_READ_TOKEN_NAMES`."),
  via: text(
    "`api`, `cli` or `console`; `bulk` for each task of a bulk action; `rpc` or `internal` for calls of other services."
  ),
  action: text("The action, as in `cancel`."),
  target: textOrNull("The task, delivery, node or token."),
  sub: textOrNull("The user, or a pseudonym once the user's data are erased."),
  reason: textOrNull("Why, as the operator wrote."),
  outcome: text(
    "`done`, `refused`, `unknown` if it was interrupted and may have been done, or `started` if the process or the database went away meanwhile."
  ),
  bulk_id: textOrNull("The bulk action.")
}).annotate({ identifier: "AuditLine", description: "An action of an operator, or of a call of another service." })

export const AuditView = Schema.Struct({
  data: described(Schema.Array(AuditLineView), "Newest first."),
  next: textOrNull("The `cursor` of the next page; null when nothing follows."),
  complete: described(
    Schema.Boolean,
    "False when the search examined its maximum number of lines before the page was full."
  )
}).annotate({ identifier: "Audit", description: "One page of the audit." })

/** Hours, and characters of what an index of Postgres can hold. */
const [maxHours, maxSilenced] = [31 * 24, 600]
const silenced = {
  kind: described(SilenceKind, "A cause of failures, or an alert that has ended."),
  key: described(
    Schema.String.check(isAtMostCharacters(maxSilenced)),
    "The `fingerprint` of a cause, or a name that the console gives an alert."
  )
}

export const SilenceBody = Schema.Struct({
  ...silenced,
  hours: described(
    Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxHours }))),
    `How long it holds, 1 to ${maxHours}; null ends it.`
  )
}).annotate({ identifier: "Silence", description: "A cause or an alert to put aside." })

export const SilenceView = Schema.Struct({
  ...silenced,
  until: momentOrNull("Its end; null when it was ended."),
  by: text("The operator.")
}).annotate({ identifier: "SilenceState", description: "A silence after its change." })

export const SilencesView = Schema.Struct({
  data: described(
    Schema.Array(Schema.Struct({ ...silenced, until: moment("Its end."), by: text("The operator.") })),
    "Newest first, 1,000 at most."
  )
}).annotate({ identifier: "Silences", description: "Causes and alerts that operators have put aside for all of them." })

export const LimitsBody = Schema.Struct({
  max_active_tasks: described(
    Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxActive }))),
    `Active tasks that the user may have, 1 to ${maxActive}; null is \`MAX_ACTIVE_TASKS\` again.`
  )
}).annotate({ identifier: "SetUserLimits", description: "The limits of one user." })

export const LimitsView = Schema.Struct({
  sub: text("The user."),
  max_active_tasks: described(Schema.NullOr(Count), "The user's own limit; null without one.")
}).annotate({ identifier: "UserLimits", description: "The limits of one user." })

export const UserView = Schema.Struct({
  sub: text("The user."),
  slots: described(
    Schema.Struct({ used: count("Active tasks."), maximum: count("The limit that holds.") }),
    "The active tasks that the user has and may have."
  ),
  limits: described(
    Schema.Struct({ max_active_tasks: described(Schema.NullOr(Count), "Null is the default.") }),
    "Limits of the user's own."
  ),
  running: count("Tasks that are processing."),
  waiting: count("Tasks that are pending."),
  interrupted: count("Tasks that wait for the user."),
  failures: count("Tasks that failed in the last seven days."),
  stored_bytes: described(
    Schema.Struct({
      bytes: count("Bytes of requests and turns."),
      tasks: count("Tasks that were counted."),
      complete: described(Schema.Boolean, "False when only the newest tasks were counted.")
    }),
    "Counted now."
  ),
  last_revocation: described(
    Schema.NullOr(Schema.Struct({
      revoked_at: moment("When it was recorded."),
      issued_before: moment("Tokens issued before this moment are revoked.")
    })),
    "Of all tokens of the user; null without one."
  ),
  schedules: Schema.optionalKey(Schema.Json).annotate({ description: "Schedules by their state." }),
  usage: Schema.optionalKey(Schema.Json).annotate({
    description: "Of the current month in UTC: tasks, tokens and cost."
  })
}).annotate({ identifier: "OperatorUser", description: "One user, without what the tasks say." })

export const EraseBody = Schema.Struct({
  confirm: text("The user again, as in the address."),
  reason
}).annotate({ identifier: "EraseUser", description: "Confirms that all that is kept of the user is erased." })
