/** Valid bodies, derived from the schemas that decode them. */
import { Arbitrary, Schema, Struct } from "effect"
import { CoreEvent } from "../../../src/domain/CoreProtocol.ts"
import { JsonObject } from "../../../src/domain/json/OpaqueJson.ts"
import { CreateTaskBody, Message, PreviousTurn } from "../../../src/domain/TaskRequest.ts"
import { ToolCall, ToolResult } from "../../../src/domain/ToolCall.ts"
import { CancelBody } from "../../../src/http/contract/TaskSchemas.ts"
import { integerUpTo, oneOf } from "./Attempt.ts"
import { clean } from "./Json.ts"

export type Body = Readonly<Record<string, unknown>>

const cleaned = <A>(arbitrary: Arbitrary.Arbitrary<A>): Arbitrary.Arbitrary<A> =>
  Arbitrary.map(arbitrary, (value) => clean(value) as A)

const derived = <S extends Schema.Constraint>(schema: S) => cleaned(Arbitrary.schema(schema))

const urls: ReadonlyArray<string> = [
  "https://example.org/hook",
  "HTTP://user:secret@Example.ORG:8080/a?b=c#d",
  "http://[2001:db8::1]/",
  "https://bücher.example/ü?q=%20"
]

/** The other accepted forms of a tool: nested function, MCP and Anthropic. */
const toolForms: ReadonlyArray<(tool: Body) => Body> = [
  (tool) => tool,
  ({ type, ...rest }) => ({ type, function: rest }),
  ({ description, name, parameters }) => ({ name, description, inputSchema: parameters ?? {} }),
  ({ description, name, parameters }) => ({ name, description, input_schema: parameters ?? {} }),
  ({ name, parameters }) => ({ type: "custom", name, input_schema: parameters ?? {} })
]

/** The fields whose JSON equals their decoded value; the others are generated separately. */
const plainFields = derived(Schema.Struct(Struct.omit(CreateTaskBody.fields, ["turns", "callback_url"])))

export const createBodies: Arbitrary.Arbitrary<Body> = Arbitrary.all({
  plain: plainFields,
  turns: derived(Schema.Array(Schema.Union([Message, PreviousTurn]))),
  url: oneOf([undefined, null, ...urls]),
  form: integerUpTo(toolForms.length - 1)
}).pipe(Arbitrary.map(({ form, plain, turns, url }) => ({
  ...plain,
  ...(url === undefined ? {} : { callback_url: url }),
  ...(turns.length === 0 ? {} : { turns }),
  ...(Array.isArray(plain.client_tools)
    ? {
      client_tools: plain.client_tools.map((tool: Body, index) => toolForms[(form + index) % toolForms.length]!(tool))
    }
    : {})
})))

/** One result for each id, in any order. */
export const resultsOf = (ids: ReadonlyArray<string>): Arbitrary.Arbitrary<ReadonlyArray<Body>> =>
  Arbitrary.all({
    results: Arbitrary.all(ids.map(() => derived(ToolResult))),
    first: integerUpTo(Math.max(0, ids.length - 1))
  }).pipe(Arbitrary.map(({ first, results }) => {
    const given = results.map((result, index) => ({ ...result, tool_call_id: ids[index]! }))
    return [...given.slice(first), ...given.slice(0, first)]
  }))

const jsonObjects = derived(JsonObject)

/** Tool calls with distinct ids. */
const toolCalls = Arbitrary.map(
  derived(Schema.NonEmptyArray(ToolCall)),
  (calls) => calls.map((call, index) => ({ ...call, id: `${call.id}${index}` }))
)

export const cancelBodies: Arbitrary.Arbitrary<Body> = derived(CancelBody)

/** Events of the target's current run. */
export const coreEvents: Arbitrary.Arbitrary<Body> = Arbitrary.map(
  derived(CoreEvent),
  (event) => ({ ...event, task_id: "{uuid}", run_id: "{run_id}" })
)

/** The opaque parts of a whole task, sent by the core and the client, which the gateway passes on unchanged. */
export const stories = Arbitrary.flatMap(toolCalls, (calls) =>
  Arbitrary.all({
    request: createBodies,
    calls: Arbitrary.Constant(calls),
    state: derived(Schema.Json),
    partialTurn: jsonObjects,
    results: resultsOf(calls.map(({ id }) => id)),
    turn: jsonObjects
  }))
