/** Every field of every body with its kind: the rules of CONTRACT 2, each broken alone in an otherwise valid body. */
import { Arbitrary } from "effect"
import * as Limits from "../../../src/domain/Limits.ts"
import { answered, type Attempt, blaming, integerUpTo, oneOf, type Rule } from "./Attempt.ts"
import { dotted, type Path, put, write } from "./Json.ts"
import * as Kinds from "./Kinds.ts"
import { type Body, cancelBodies, coreEvents, createBodies, resultsOf } from "./ValidBodies.ts"

interface Field {
  /** `*` is an item of a list. */
  readonly path: string
  readonly kind: Kinds.Kind
  readonly need: "required" | "optional"
  /** A valid thing that has the field: the item at `*`, or the whole body. */
  readonly host?: object
}

interface Door {
  readonly group: string
  readonly bodies: Arbitrary.Arbitrary<Body>
  readonly fields: ReadonlyArray<Field>
  readonly refused: Omit<Attempt, "body" | "expected">
  readonly taken: Omit<Attempt, "body">
  /** Items stand at the places of those that are there, because each answers to something else. */
  readonly keepsItems?: boolean
}

const text = { type: "text", text: "x" }
const fileItem = {
  type: "file",
  file: { id: "1", name: "a.txt", mime_type: "text/plain", provider_data: { path: "a" } }
}
const voiceItem = { type: "voice", voice: { id: "1", name: "a.mp3", mime_type: "audio/mpeg", duration: 1.5 } }
const message = { role: "user", content: "x" }
const previousTurn = { output: [], messages: [message], metadata: {} }
const tool = { type: "function", name: "host_tool", description: "x", parameters: { type: "object" }, strict: true }
const nestedTool = { type: "function", function: { name: "host_tool", description: "x", parameters: {}, strict: true } }
const mcpTool = { name: "host_tool", description: "x", inputSchema: {} }
const anthropicTool = { type: "custom", name: "host_tool", description: "x", input_schema: {} }

const field = (path: string, kind: Kinds.Kind, need: Field["need"], host?: object): Field => ({
  path,
  kind,
  need,
  ...(host === undefined ? {} : { host })
})

const unknownFields = (prefix: string, host?: object) => [
  field(`${prefix}unknown_field`, Kinds.opaqueValue, "optional", host),
  field(`${prefix}constructor`, Kinds.opaqueValue, "optional", host),
  field(`${prefix}__proto__`, Kinds.opaqueValue, "optional", host)
]

const createFields: ReadonlyArray<Field> = [
  field("assistant_id", Kinds.id, "required"),
  field("llm_model_id", Kinds.id, "optional"),
  field("image_generator_id", Kinds.id, "optional"),
  field("max_execution_time", Kinds.seconds, "optional"),
  field("callback_url", Kinds.url, "optional"),
  field("callback_secret", Kinds.secret, "optional"),
  field("input", Kinds.list(Limits.inputItems, text, false), "required"),
  field("input.*", Kinds.item, "required", text),
  field("input.*.type", Kinds.inputType, "required", text),
  field("input.*.text", Kinds.anyText, "required", text),
  field("input.*.file", Kinds.object, "required", fileItem),
  field("input.*.file.id", Kinds.anyText, "required", fileItem),
  field("input.*.file.name", Kinds.anyText, "required", fileItem),
  field("input.*.file.mime_type", Kinds.anyText, "required", fileItem),
  field("input.*.file.provider_data", Kinds.object, "optional", fileItem),
  field("input.*.file.provider_data.path", Kinds.anyText, "optional", fileItem),
  field("input.*.voice", Kinds.object, "required", voiceItem),
  field("input.*.voice.id", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.name", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.mime_type", Kinds.anyText, "required", voiceItem),
  field("input.*.voice.duration", Kinds.duration, "optional", voiceItem),
  field("turns", Kinds.list(Limits.turns, message, true), "optional"),
  field("turns.*", Kinds.item, "required", message),
  field("turns.*.role", Kinds.role, "required", message),
  field("turns.*.content", Kinds.content, "required", message),
  field("turns.*.messages", Kinds.objects, "optional", previousTurn),
  field(
    "client_tools",
    Kinds.list(Limits.clientTools, tool, true, (n) => ({ ...tool, name: `tool_${n}` })),
    "optional"
  ),
  field("client_tools.*", Kinds.item, "required", tool),
  field("client_tools.*.type", Kinds.toolType, "required", tool),
  field("client_tools.*.name", Kinds.toolName, "required", tool),
  field("client_tools.*.description", Kinds.anyText, "optional", tool),
  field("client_tools.*.parameters", Kinds.opaqueObject, "optional", tool),
  field("client_tools.*.strict", Kinds.boolean, "optional", tool),
  field("client_tools.*.function.name", Kinds.toolName, "required", nestedTool),
  field("client_tools.*.function.description", Kinds.anyText, "optional", nestedTool),
  field("client_tools.*.function.parameters", Kinds.opaqueObject, "optional", nestedTool),
  field("client_tools.*.function.strict", Kinds.boolean, "optional", nestedTool),
  field("client_tools.*.inputSchema", Kinds.opaqueObject, "optional", mcpTool),
  field("client_tools.*.input_schema", Kinds.opaqueObject, "optional", anthropicTool),
  ...unknownFields(""),
  ...unknownFields("input.*.", text),
  ...unknownFields("client_tools.*.", tool)
]

const result = { output: { a: 1 }, is_error: false }

const resultFields: ReadonlyArray<Field> = [
  field("results", Kinds.list(Limits.toolCalls, { tool_call_id: "c1", output: 1 }, true), "required"),
  field("results.*", Kinds.item, "required"),
  field("results.*.tool_call_id", Kinds.name, "required"),
  field("results.*.output", Kinds.anyJson, "required", result),
  field("results.*.is_error", Kinds.boolean, "optional"),
  ...unknownFields(""),
  ...unknownFields("results.*.")
]

const cancelFields: ReadonlyArray<Field> = [field("reason", Kinds.reason, "optional"), ...unknownFields("")]

const call = { id: "host_call", name: "look", arguments: {} }
const event = (type: string, more: object = {}) => ({
  task_id: "{uuid}",
  run_id: "{run_id}",
  event_id: "host_event",
  type,
  ...more
})
const interrupted = event("interrupted", { tool_calls: [call], state: { at: 1 } })
const failed = event("failed", { code: "internal", message: "x" })
const toolCalls = Kinds.list(Limits.toolCalls, call, false, (n) => ({ ...call, id: `call_${n}` }))

const eventFields: ReadonlyArray<Field> = [
  field("task_id", Kinds.anyText, "required"),
  field("run_id", Kinds.anyText, "required"),
  field("event_id", Kinds.eventId, "required"),
  field("type", Kinds.eventType, "required"),
  field("turn", Kinds.opaqueObject, "required", event("progress")),
  field("turn", Kinds.opaqueObject, "required", event("completed")),
  field("turn", Kinds.opaqueObject, "optional", interrupted),
  field("turn", Kinds.opaqueObject, "optional", failed),
  field("tool_calls", toolCalls, "required", interrupted),
  field("tool_calls.*", Kinds.item, "required", call),
  field("tool_calls.*.id", Kinds.name, "required", call),
  field("tool_calls.*.name", Kinds.name, "required", call),
  field("tool_calls.*.arguments", Kinds.opaqueObject, "required", call),
  field("state", Kinds.anyJson, "optional", interrupted),
  field("code", Kinds.failureCode, "required", failed),
  field("message", Kinds.anyText, "optional", failed),
  ...unknownFields("")
]

const doors: ReadonlyArray<Door> = [
  {
    group: "create",
    bodies: createBodies,
    fields: createFields,
    refused: { target: "none", caller: "owner", method: "POST", path: "/api/tasks" },
    taken: { target: "none", caller: "newcomer", method: "POST", path: "/api/tasks", expected: answered(201) }
  },
  {
    group: "tool results",
    bodies: Arbitrary.map(resultsOf(["c1", "c2", "c3"]), (results) => ({ results })),
    fields: resultFields,
    refused: { target: "interrupted", caller: "owner", method: "POST", path: "/api/tasks/{uuid}/tool-results" },
    taken: {
      target: "fresh interrupted",
      caller: "owner",
      method: "POST",
      path: "/api/tasks/{uuid}/tool-results",
      expected: answered(200)
    },
    keepsItems: true
  },
  {
    group: "cancel",
    bodies: cancelBodies,
    fields: cancelFields,
    refused: { target: "interrupted", caller: "owner", method: "POST", path: "/api/tasks/{uuid}/cancel" },
    taken: {
      target: "fresh interrupted",
      caller: "owner",
      method: "POST",
      path: "/api/tasks/{uuid}/cancel",
      expected: answered(200)
    }
  },
  {
    group: "core event",
    bodies: coreEvents,
    fields: eventFields,
    refused: { target: "processing", caller: "core", method: "POST", path: "/internal/core/events" },
    taken: {
      target: "fresh processing",
      caller: "core",
      method: "POST",
      path: "/internal/core/events",
      expected: answered(200)
    }
  }
]

/** The body with the field's host in it, and where the field is then. */
const settle = ({ host, path }: Field, body: Body, pick: number, keepsItems: boolean): readonly [unknown, Path] => {
  const names = path.split(".")
  const star = names.indexOf("*")
  if (star === -1) return [host ?? body, names]
  const list = names.slice(0, star)
  const isEvent = list[0] === "tool_calls"
  const whole = isEvent ? { ...interrupted, event_id: body["event_id"] } : body
  const items = (whole as Body)[list[0]!]
  const length = Array.isArray(items) ? items.length : 0
  const index = pick % (keepsItems ? length : length + 1)
  const at = [...list, index]
  const item = keepsItems ? { ...(items as ReadonlyArray<object>)[index], ...host } : host
  return [put(whole, at, item), [...at, ...names.slice(star + 1)]]
}

const rulesOf = (door: Door) => (field: Field): ReadonlyArray<Rule> => {
  const { kind: { broken, valid }, need, path } = field
  const rule = (
    name: string,
    isBroken: boolean,
    value: (path: Path) => unknown,
    blamed: (path: Path) => string
  ): Rule => ({
    group: `${door.group}: ${isBroken ? "one field broken" : "valid to the edge"}`,
    name: `${path}: ${name}`,
    attempts: Arbitrary.all({ body: door.bodies, pick: integerUpTo(3) }).pipe(Arbitrary.map(({ body, pick }) => {
      const [hosted, at] = settle(field, body, pick, door.keepsItems ?? false)
      const written = write(put(hosted, at, value(at)))
      return isBroken
        ? { ...door.refused, body: written, expected: blaming(blamed(at)) }
        : { ...door.taken, body: written }
    }))
  })
  const isRequired = need === "required"
  const absence = [
    rule("null", isRequired && field.kind !== Kinds.anyJson, () => null, dotted),
    // Without an item there is a shorter list, which is no break.
    ...(path.endsWith("*") ? [] : [rule("missing", isRequired, () => undefined, dotted)])
  ]
  return [
    ...absence.filter(() => !isUntold(field)),
    ...Object.entries(broken).map(([name, { at, blamed }]) => rule(name, true, at, blamed ?? dotted)),
    ...Object.entries(valid).filter(() => !isIdentity(field)).map(([name, { at }]) => rule(name, false, at, dotted))
  ]
}

/** What tells a form from another: without it the item is an incomplete one of another form. */
const isUntold = ({ path }: Field) => /\.(messages|inputSchema|input_schema)$/.test(path)

/** Fields whose value names something: another valid one is not the task's, or not the answer that was asked for. */
const isIdentity = ({ path }: Field) => ["task_id", "run_id", "results", "results.*.tool_call_id"].includes(path)

const asTheyAre: ReadonlyArray<Rule> = doors.map(({ bodies, group, taken }) => ({
  group: `${group}: as the schema says`,
  name: "any valid body",
  attempts: Arbitrary.map(bodies, (body) => ({ ...taken, body: write(body) }))
}))

const others: ReadonlyArray<Rule> = [
  {
    group: "create: one field broken",
    name: "client_tools: a name twice",
    attempts: Arbitrary.all({ body: createBodies, one: oneOf([tool, nestedTool, mcpTool, anthropicTool]) }).pipe(
      Arbitrary.map(({ body, one }) => ({
        ...doors[0]!.refused,
        body: write({ ...body, client_tools: [tool, one] }),
        expected: blaming("client_tools.1.name")
      }))
    )
  },
  ...[
    {
      name: "a result too many",
      change: (results: ReadonlyArray<Body>) => [...results, { ...results[0], tool_call_id: "c4" }],
      blamed: "results.3.tool_call_id"
    },
    {
      name: "a result twice",
      change: (results: ReadonlyArray<Body>) => [...results, results[1]],
      blamed: "results.3.tool_call_id"
    },
    { name: "a result missing", change: (results: ReadonlyArray<Body>) => results.slice(1), blamed: "results" },
    { name: "no results", change: () => [], blamed: "results" }
  ].map(({ blamed, change, name }): Rule => ({
    group: "tool results: one field broken",
    name: `results: ${name}`,
    attempts: Arbitrary.map(resultsOf(["c1", "c2", "c3"]), (results) => ({
      ...doors[1]!.refused,
      body: write({ results: change(results) }),
      expected: blaming(blamed)
    }))
  }))
]

export const fieldRules: ReadonlyArray<Rule> = [
  ...asTheyAre,
  ...others,
  ...doors.flatMap((door) => door.fields.flatMap(rulesOf(door)))
]
