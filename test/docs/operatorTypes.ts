/** The console's types of what operators read, made from the description of their interface. `npm run docs` writes them. */
import { HttpApi, type HttpApiGroup, OpenApi } from "effect/http-api"
import { finish } from "../../src/http/contract/OpenApiTransform.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import { nameOf, type Node, schemas as ofClients } from "./clientTypes.ts"
import { makeTypes } from "./typescriptTypes.ts"

const group = extensions.flatMap(({ routes: { documented } }) => documented ?? []).find(({ group }) =>
  group.identifier === "operator"
)?.group

/** Names in the console that differ from those of the document. */
const renamed: Readonly<Record<string, string>> = {
  BulkAction: "Bulk",
  BulkActions: "BulkList",
  BulkDryRun: "DryRun",
  ErrorGroups: "Errors",
  OperatorDeliveries: "Deliveries",
  OperatorDelivery: "Delivery",
  OperatorTask: "Task",
  OperatorTaskDetail: "TaskDetail",
  OperatorTasks: "Tasks",
  OperatorUser: "User",
  PendingToolCall: "ToolCall",
  StuckTasks: "Stuck",
  TaskContent: "Content"
}

/** The console does not read what these calls return. */
const unread = new Set(["WantedNode", "UserLimits"])

const make = (group: HttpApiGroup.Constraint) => {
  const document: Node = OpenApi.fromApi(
    HttpApi.make("operator").add(group).annotate(
      OpenApi.Transform,
      finish({})
    )
  )
  const { schemas } = document["components"]
  const others = new Set(
    [...unread, "Json", "JsonObject", ...Object.keys(ofClients)].filter((name) => name !== "Timestamp")
  )
  const { define, definitions, used } = makeTypes(schemas, renamed, others)
  for (const methods of Object.values<Node>(document["paths"])) {
    for (const { responses } of Object.values<Node>(methods)) {
      for (const [status, { content }] of Object.entries<Node>(responses)) {
        const { $ref } = content?.["application/json"]?.schema ?? {}
        if (status.startsWith("2") && $ref !== undefined && !others.has(nameOf($ref))) define(nameOf($ref), false)
      }
    }
  }
  const actions = extensions.flatMap(({ routes: { auditActions = [] } }) => auditActions)
  const list = actions.map((name) => `  "${name}"`).join(",\n")
  definitions.set(
    "auditActions",
    `/** Actions that the audit is filtered by. */\nexport const auditActions = [\n${list}\n]\n`
  )
  const text = [...definitions.values()].join("\n")
  const imported = [...new Set([...used, "Json", "JsonObject", "Metadata"])].filter((name) =>
    new RegExp(`\\b${name}\\b`).test(text)
  )
  return `/** What the calls of operators return. Made from the service's description by \`npm run docs\`: do not edit. */
import type { ${imported.toSorted().join(", ")} } from "../client/promise/${"Types.ts"}"

${text}`
}

/** Undefined where the extension was deleted. */
export const types = group === undefined ? undefined : make(group)

/** Where they are, in this repository. */
export const typesFile = "src/http/console/operatorTypes.ts"
