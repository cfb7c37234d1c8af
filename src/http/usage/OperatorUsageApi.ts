/** Usage of all users, for operators. */
import { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { usageBuckets, usageKeys, usageOrders } from "../../services/usage/Usage.ts"
import { Forbidden, ServiceUnavailable, ValidationFailed } from "../contract/Errors.ts"
import { operation, query } from "../contract/Operation.ts"
import { OperatorAuthorization } from "../OperatorRoutes.ts"
import { counted, parametersOf, response } from "./UsageApi.ts"
import { UsageView } from "./UsageSchemas.ts"

const path = "/internal/operator/usage"
const ofUser = query("sub", "Only of this user.", { type: "string" })
const largest = [
  query(
    "order",
    "`period`: by period, the largest groups first. `tokens` and `cost`: the largest of all periods first.",
    { type: "string", enum: usageOrders, default: usageOrders[0] }
  ),
  query(
    "limit",
    `Only the first buckets; \`totals\` are those of all. Without it, more than ${usageBuckets} are refused.`,
    { type: "integer", minimum: 1, maximum: usageBuckets }
  )
]
const refused = { 403: "A read token may not erase." }

export class OperatorUsageGroup extends HttpApiGroup.make("operatorUsage").add(
  HttpApiEndpoint.get("readAll", path, {
    success: UsageView,
    error: [ValidationFailed, ServiceUnavailable]
  }).annotateMerge(operation({
    name: "getAnyUsage",
    summary: "Read usage of all users",
    description: counted,
    parameters: [...parametersOf(usageKeys), ofUser, ...largest],
    response: response({ sub: "user-1" }),
    responses: { 200: "Sums by period and group.", 403: "The token may not read." }
  })),
  HttpApiEndpoint.delete("erase", path, {
    success: HttpApiSchema.NoContent,
    error: [ValidationFailed, Forbidden, ServiceUnavailable]
  }).annotateMerge(operation({
    name: "eraseUsage",
    summary: "Erase the usage of a user",
    description: "Deletes what is kept of a user. Tasks of the user that have not ended may be counted again.",
    parameters: [{ ...ofUser, required: true }],
    responses: { 204: "Nothing is kept of the user.", ...refused }
  }))
).middleware(OperatorAuthorization).annotateMerge(
  OpenApi.annotations({ description: "Consumption of the tasks of all users." })
) {}

export class OperatorUsageApi extends HttpApi.make("async-task-service-operator-usage").add(OperatorUsageGroup) {}
