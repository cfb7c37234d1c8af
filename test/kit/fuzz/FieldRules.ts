/** Bodies with exactly one invalid field, and valid bodies with one field at the edge of its bounds. */
import { Arbitrary } from "effect"
import { answered, type Attempt, blaming, integerUpTo, oneOf, type Rule } from "./Attempt.ts"
import * as Fields from "./Fields.ts"
import { dotted, type Path, put, write } from "./Json.ts"
import * as Kinds from "./Kinds.ts"
import { task } from "./Requests.ts"
import { type Body, cancelBodies, coreEvents, createBodies, resultsOf } from "./ValidBodies.ts"

type Field = Fields.Field

interface Door {
  readonly group: string
  readonly bodies: Arbitrary.Arbitrary<Body>
  readonly fields: ReadonlyArray<Field>
  readonly refused: Omit<Attempt, "body" | "expected">
  readonly taken: Omit<Attempt, "body">
  /** Items replace existing ones, because each result belongs to a certain tool call. */
  readonly keepsItems?: boolean
}

/** Each body is sent to a task in the same state: a rejected one to a shared task, an accepted one to a fresh task. */
const doorOf = (
  group: string,
  [bodies, fields]: readonly [Door["bodies"], Door["fields"]],
  at: { readonly state: "processing" | "interrupted"; readonly caller: "owner" | "core"; readonly path: string }
): Door => {
  const request = { caller: at.caller, method: "POST", path: at.path }
  return {
    group,
    bodies,
    fields,
    refused: { ...request, target: at.state },
    taken: { ...request, target: `fresh ${at.state}`, expected: answered(200) }
  }
}

const create = { method: "POST", path: "/api/tasks", target: "none" } as const
const rerun = { method: "POST", path: `${task}/rerun` } as const
const results = Arbitrary.map(resultsOf(["c1", "c2", "c3"]), (items) => ({ results: items }))
const ofOwner = { state: "interrupted", caller: "owner" } as const

const event = doorOf("core event", [coreEvents, Fields.eventFields], {
  state: "processing",
  caller: "core",
  path: "/internal/core/events"
})

/** A last event of a run that is refused ends the task too. */
const coreEvent: Door = { ...event, refused: { ...event.refused, target: "fresh processing" } }

const doors: ReadonlyArray<Door> = [
  {
    group: "create",
    bodies: createBodies,
    fields: Fields.createFields,
    refused: { ...create, caller: "owner" },
    taken: { ...create, caller: "newcomer", expected: answered(201) }
  },
  {
    group: "rerun",
    bodies: createBodies,
    fields: Fields.rerunFields,
    refused: { ...rerun, target: "ended", caller: "owner" },
    taken: { ...rerun, target: "fresh processing", caller: "owner", expected: answered(201) }
  },
  {
    ...doorOf("tool results", [results, Fields.resultFields], { ...ofOwner, path: `${task}/tool-results` }),
    keepsItems: true
  },
  doorOf("cancel", [cancelBodies, Fields.cancelFields], { ...ofOwner, path: `${task}/cancel` }),
  doorOf("stop", [cancelBodies, Fields.cancelFields], { ...ofOwner, path: `${task}/stop` }),
  coreEvent
]

/** Puts the field's host into the body. Returns the body with the path of the field. */
const placeHost = ({ host, path }: Field, body: Body, pick: number, keepsItems: boolean): readonly [unknown, Path] => {
  const names = path.split(".")
  const star = names.indexOf("*")
  if (star === -1) return [host ?? body, names]
  const list = names.slice(0, star)
  const isEvent = list[0] === "tool_calls"
  const whole = isEvent ? { ...Fields.interrupted, event_id: body["event_id"] } : body
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
      const [hosted, at] = placeHost(field, body, pick, door.keepsItems ?? false)
      const written = write(put(hosted, at, value(at)))
      return isBroken
        ? { ...door.refused, body: written, expected: blaming(blamed(at)) }
        : { ...door.taken, body: written }
    }))
  })
  const absence = [
    rule("null", need !== "optional" && field.kind !== Kinds.anyJson, () => null, dotted),
    // A list without the item is only shorter, and valid.
    ...(path.endsWith("*") ? [] : [rule("missing", need === "required", () => undefined, dotted)])
  ]
  return [
    ...absence.filter(() => !isDiscriminator(field)),
    ...Object.entries(broken).map(([name, { at, blamed }]) => rule(name, true, at, blamed ?? dotted)),
    ...Object.entries(valid).filter(() => !isIdentity(field)).map(([name, { at }]) => rule(name, false, at, dotted))
  ]
}

/** Fields that distinguish the forms of an item: without one the item is an incomplete item of another form. */
const isDiscriminator = ({ path }: Field) => /\.(messages|inputSchema|input_schema)$/.test(path)

/** Fields that identify something: another valid value does not match the task or its tool call. */
const isIdentity = ({ path }: Field) => ["task_id", "run_id", "results", "results.*.tool_call_id"].includes(path)

const validBodies: ReadonlyArray<Rule> = doors.map(({ bodies, group, taken }) => ({
  group: `${group}: as the schema says`,
  name: "any valid body",
  weight: 25,
  attempts: Arbitrary.map(bodies, (body) => ({ ...taken, body: write(body) }))
}))

const others: ReadonlyArray<Rule> = [
  {
    group: "create: one field broken",
    name: "client_tools: a name twice",
    attempts: Arbitrary.all({
      body: createBodies,
      one: oneOf([Fields.tool, Fields.nestedTool, Fields.mcpTool, Fields.anthropicTool])
    }).pipe(
      Arbitrary.map(({ body, one }) => ({
        ...doors[0]!.refused,
        body: write({ ...body, client_tools: [Fields.tool, one] }),
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
      ...doors[2]!.refused,
      body: write({ results: change(results) }),
      expected: blaming(blamed)
    }))
  }))
]

export const fieldRules: ReadonlyArray<Rule> = [
  ...validBodies,
  ...others,
  ...doors.flatMap((door) => door.fields.flatMap(rulesOf(door)))
]
