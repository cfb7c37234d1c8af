/** Values of the examples that the documentation shows, and examples that follow from schemas. */
import type { Node } from "./OpaqueSchemas.ts"

export const uuid = "019ac5d2-7f3e-7c41-9b1a-2f60c8a7d913"
export const deliveryId = `${uuid}-2`
export const createdAt = "2026-11-21T08:30:00.123456Z"
export const completedAt = "2026-11-21T08:30:04.654321Z"

export const turn = {
  output: [{ type: "text", text: "The report finds that sales rose by a tenth." }],
  messages: [{ role: "assistant", content: "The report finds that sales rose by a tenth." }],
  metadata: { model: "demo-1", finish_reason: "stop", usage: { input_tokens: 12, output_tokens: 11, total_tokens: 23 } }
}

export const summary = { uuid, status: "completed", error: null, created_at: createdAt, completed_at: completedAt }

/** A webhook's body: the task as `GET /api/tasks/{uuid}` returns it. */
export const webhookExample = { ...summary, turn }

/** The values of fields in examples that follow from schemas, by their names. The `examples` of a schema have precedence. */
const fields: Readonly<Record<string, unknown>> = {
  action: "rerun",
  "alerts.id": "webhooks_failing",
  "alerts.message": "Webhooks failed in the last hour: 1 to https://client.example.com.",
  address: "10.0.0.1:34431",
  assistant_id: 7,
  "attempts.error": "timed_out",
  by: "ana",
  callback_origin: "https://client.example.com",
  complete: true,
  cost: "1.25",
  cron: "0 9 * * MON-FRI",
  currency: "USD",
  "ended_by.by": "core",
  error: "The model did not answer.",
  errors: [],
  "events.type": "Failed",
  fingerprint: "The model did not answer.",
  id: "019ac5d2-9b00-7c10-8000-0a0b0c0d0e11",
  instance: uuid,
  key: "morning-report",
  name: "Analyst",
  operator: "ana",
  "operators.name": "ana",
  origin: "https://client.example.com",
  outcome: "done",
  owner: "10.0.0.1:34431",
  pending_tools: [],
  reason: "The deploy of 08:30 was wrong.",
  run_id: "019ac5d2-8001-7b10-a5f3-90b1c2d3e4f5",
  shards: [0, 1, 2],
  state: "failed",
  status: "failed",
  sub: "user-1",
  target: uuid,
  task_uuid: uuid,
  timezone: "Europe/Berlin",
  type: "task.completed",
  url: "https://hooks.example.com/tasks",
  version: "0.1.0",
  via: "console"
}

/** True if a field may have the value. */
const fits = (value: unknown, { enum: values, type }: Node) =>
  value !== undefined && (values?.includes(value) ?? Array.isArray(value) === (type === "array"))

/** An example of what a schema describes: with its required fields, and null where it may be. `name` is that of the field. */
export const exampleOf = (schema: Node, components: Node, name = "", parent = ""): unknown => {
  const { $ref, anyOf, enum: values, format, items, oneOf, properties = {}, required = [], type } = schema
  if ($ref !== undefined) return exampleOf(components[$ref.split("/").at(-1)], components, name, parent)
  const members: ReadonlyArray<Node> = anyOf ?? oneOf ?? []
  const example = schema["examples"]?.[0] ?? fields[`${parent}.${name}`] ?? fields[name]
  if (fits(example, members[0] ?? schema)) return example
  if (members.some((member) => member["type"] === "null")) return null
  if (members[0] !== undefined) return exampleOf(members[0], components, name, parent)
  if (values !== undefined) return values[0]
  if (type === "array") return [exampleOf(items, components, name, parent)]
  if (type === "integer" || type === "number") return 3
  if (type === "boolean") return false
  if (type === "string") return format === "date-time" ? completedAt : format === "uuid" ? uuid : name
  return Object.fromEntries(
    required.map((field: string) => [field, exampleOf(properties[field], components, field, name)])
  )
}
