/** Sends expensive JSON to every place that accepts JSON: none of it may block the event loop or exhaust the memory. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import { type Operation, operationsOf, pathFor } from "../kit/operations.ts"
import { interrupt } from "../kit/ScriptedCore.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { attack } from "./kit/attack.ts"
import type { Volley } from "./kit/attacker.ts"
import { type Shape, shapes } from "./kit/shapes.ts"
import { type Observation, startVictim } from "./kit/Victim.ts"

/** Bytes of a body; enough to detect quadratic cost. */
const small = 512 * 1024
/** Bytes of a body, minus the most by which a shape exceeds the requested size. */
const largest = Limits.jsonBodyBytes - 1024

/**
 * Maximum CPU milliseconds of the main thread. The aim is 50. Copying 16 MiB once takes 5 on an idle machine and 50 on a
 * busy one, where new pages and garbage collections are slow too.
 */
const longestTurn = 150
/** Maximum MiB of resident memory; usually 320 when all bodies are refused, and 360 to 420 when all are stored. */
const memory = 512

/** Concurrent bodies of the largest attack. */
const crowd = Number(process.env["ATTACK_BODIES"] ?? 16)

interface Target {
  readonly uuid: string
  readonly runId: string
  readonly token: string
}

/** Stands for the value in a body. */
const hole = "HERE"

const task = { assistant_id: 1, input: [{ type: "text", text: "x" }] }
const partOf = (part: object) => [{ role: "user", content: [{ type: "text", ...part }] }]
const eventOf = ({ runId, uuid }: Target, more: object) => ({
  task_id: uuid,
  run_id: runId,
  event_id: randomUUID(),
  ...more
})

/** Bodies with the value at places that no example has. */
const deeper: Readonly<Record<string, (target: Target) => ReadonlyArray<object>>> = {
  createTask: () => [
    { ...task, input: [{ type: "text", text: hole }] },
    { ...task, turns: partOf({ x: hole }) },
    { ...task, client_tools: [{ type: "function", name: "x", parameters: hole }] }
  ],
  rerunTask: () => [{ turns: partOf({ x: hole }) }, { metadata: { x: hole } }],
  submitToolResults: () => [{ results: [{ tool_call_id: "other", output: hole }] }],
  reportCoreEvent: (target) => [
    eventOf(target, { type: "interrupted", tool_calls: hole }),
    eventOf(target, { type: "interrupted", tool_calls: [{ id: "c", name: "n", arguments: hole }], state: 1 }),
    eventOf(target, { type: "interrupted", tool_calls: [{ id: "c", name: "n", arguments: {} }], state: hole }),
    eventOf(target, { type: "progress", turn: { output: hole } })
  ]
}

/** The value as the body, in place of each of its fields, and in an unknown one. */
const bodiesOf = ({ body, fields, id }: Operation, target: Target): ReadonlyArray<unknown> => [
  hole,
  ...fields.map((field) => ({ ...Object(body), [field]: hole })),
  ...(fields.length === 0 ? [] : [{ ...Object(body), more: hole }]),
  ...(deeper[id]?.(target) ?? [])
]

const victim = await use(startVictim({ WEBHOOK_ALLOW_PRIVATE: "true" }))
victim.core.largest = 1024 * 1024
const documentAt = async (path: string) => (await fetch(victim.service.url + path)).json()
/** The operations of the core and of all extensions. */
const operations = (await Promise.all(["/openapi.json", "/internal/openapi.json"].map(documentAt))).flatMap(
  operationsOf
)
// Long turns during its start are reported late.
await victim.observe(() => new Promise((resolve) => setTimeout(resolve, 1000)))

/** An interrupted task with a pending webhook. */
const makeTarget = async (): Promise<Target> => {
  const token = await mint(randomUUID())
  const { body: { uuid } } = await victim.service.create(token, "Why?", { callback_url: "http://127.0.0.1:9/" })
  const run = await victim.runOf(uuid)
  await interrupt(run)
  return { uuid, runId: run.run_id, token }
}

/** A new user may create a task, which counts against the user's maximum. */
const tokensOf = ({ isInternal, path }: Operation, target: Target, count: number) =>
  Promise.all(Array.from({ length: count }, () =>
    isInternal
      ? internalToken
      : path.includes("{uuid}")
      ? target.token
      : mint(randomUUID())))

const volleyOf = async (
  operation: Operation,
  target: Target,
  body: unknown,
  shape: Shape,
  bytes: number,
  count = 1
): Promise<Volley> => {
  const [before = "", after = ""] = JSON.stringify(body).split(`"${hole}"`)
  const tokens = await tokensOf(operation, target, count)
  return { path: pathFor(operation, target.uuid), tokens, shape, around: [before, after], bytes }
}

/**
 * Sends the volleys and reports their cost. Repeats an attack that exceeds a maximum: on a busy machine a garbage collection
 * may be slow or late, but an attack that blocks the event loop or exhausts the memory does so every time.
 */
const costOf = async (
  volleys: ReadonlyArray<Volley>,
  expected: ReadonlyArray<number>,
  tries = 3
): Promise<Observation> => {
  let statuses: ReadonlyArray<ReadonlyArray<number>> = []
  const observed = await victim.observe(async () => {
    statuses = await attack(victim.service.url, volleys)
  })
  for (const [index, { around, shape }] of volleys.entries()) {
    const unexpected = statuses[index]?.filter((status) => !expected.includes(status))
    assert.deepStrictEqual(unexpected, [], `${shape} in ${around.join("…")}`)
  }
  const isExcessive = observed.longestTurn >= longestTurn || observed.peakMemory >= memory
  return isExcessive && tries > 1 ? costOf(volleys, expected, tries - 1) : observed
}

const excessOf = ({ longestTurn: turn, peakMemory }: Observation) => ({
  turn: turn < longestTurn ? "short" : `${turn} ms`,
  memory: peakMemory < memory ? "bounded" : `${peakMemory} MiB`
})
const none = { turn: "short", memory: "bounded" }

const names = Object.keys(shapes) as ReadonlyArray<Shape>
/** Statuses with which a client's request may be answered. */
const answers = [200, 201, 202, 204, 404, 409, 413, 422, 429]

describe("expensive JSON", () => {
  const posts = operations.filter(({ method, takesForm }) => method === "POST" && !takesForm)

  it.each(posts)("does not delay other requests at $path", async (operation) => {
    const target = await makeTarget()
    const volleys = await Promise.all(
      bodiesOf(operation, target).flatMap((body) =>
        names.map((shape) => volleyOf(operation, target, body, shape, small))
      )
    )
    assert.deepStrictEqual(excessOf(await costOf(volleys, answers)), none)
  })
})

describe(`${crowd} concurrent bodies of 16 MiB`, () => {
  const create = operations.find(({ id }) => id === "createTask")!
  const inTurns = { ...task, turns: partOf({ x: hole }) }

  it.each(["numbers", "small objects", "many keys", "one long text", "text of escapes", "text of two bytes"] as const)(
    "are accepted: %s",
    async (shape) => {
      const volley = await volleyOf(create, await makeTarget(), inTurns, shape, largest, crowd)
      assert.deepStrictEqual(excessOf(await costOf([volley], [201])), none)
    },
    180_000
  )
})
