/** Usage of the caller. */
import { Schema } from "effect"
import { HttpApi, HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { usageGroups, usageKeys, usageSteps } from "../../services/usage/Usage.ts"
import { ServiceUnavailable, ValidationFailed } from "../contract/Errors.ts"
import { Authorization } from "../contract/Middleware.ts"
import { operation, query } from "../contract/Operation.ts"
import { UsageView } from "./UsageSchemas.ts"

const moment = { type: "string", format: "date-time" }

const values = Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Schema.String)]))
const usageQuery = { from: values, to: values, step: values, group_by: values, assistant_id: values }

export const parametersOf = (groups: ReadonlyArray<string>) => [
  query("from", "Begin of the range, rounded down to the hour; by default that of this UTC month.", moment),
  query(
    "to",
    "End of the range, exclusive, rounded up to the hour; now by default. At most 31 days with the step `hour`, and 400 with `day`.",
    moment
  ),
  query("step", "The length of a bucket in UTC.", { type: "string", enum: usageSteps, default: "day" }),
  query(
    "group_by",
    `At most ${usageGroups} of these, separated by commas.`,
    { type: "array", maxItems: usageGroups, items: { type: "string", enum: groups } },
    { style: "form", explode: false }
  ),
  query("assistant_id", "Only tasks of this assistant.", { type: "integer", minimum: 1 })
]

const amounts = {
  tasks: 12,
  ended: { completed: 10, failed: 1, canceled: 1 },
  input_tokens: 48_200,
  output_tokens: 9300,
  total_tokens: 57_500,
  cached_input_tokens: 12_000,
  reasoning_tokens: 2100,
  active_seconds: 184,
  cost: "0.1985",
  unpriced_tokens: 0,
  unmetered_tasks: 1
}
const [from, to] = ["2026-11-21T00:00:00.000000Z", "2026-11-22T00:00:00.000000Z"]
export const response = (group: unknown) => ({
  data: [{ from, to, group, ...amounts }],
  totals: amounts,
  meta: {
    from,
    to,
    step: "day",
    currency: "USD",
    complete_until: "2026-11-21T16:40:00.000000Z"
  }
})

export const counted =
  "Consumption of tasks, as the core reported it. Tokens count in the hour of their interrupt or end, tasks in that of their "
  + "end. It lacks the use of broken model calls, and of attempts of a run that was begun again."

export class UsageGroup extends HttpApiGroup.make("usage").add(
  HttpApiEndpoint.get("read", "/api/usage", {
    query: usageQuery,
    success: UsageView,
    error: [ValidationFailed, ServiceUnavailable]
  }).annotateMerge(operation({
    name: "getUsage",
    summary: "Read usage",
    description: `${counted} The caller's own tasks only, also deleted ones.`,
    parameters: parametersOf(usageKeys.filter((key) => key !== "sub")),
    response: response({ assistant: 1 }),
    responses: { 200: "Sums by period and group." }
  }))
).middleware(Authorization).annotateMerge(OpenApi.annotations({ description: "Consumption of tasks." })) {}

export class UsageApi extends HttpApi.make("async-task-service-usage").add(UsageGroup) {}
