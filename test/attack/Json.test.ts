/** Sends expensive JSON to every place that accepts JSON: none of it may block the event loop or exhaust the memory. */
import { randomUUID } from "node:crypto"
import { assert, describe, it } from "vitest"
import * as Limits from "../../src/domain/Limits.ts"
import { Api } from "../../src/http/contract/Api.ts"
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
  readonly deliveryId: string
  readonly token: string
}

interface Place {
  readonly path: (target: Target) => string
  /** The user whose token is sent. A new user, if the call may create a task, which counts against the user's maximum. */
  readonly as: "owner" | "newcomer" | "internal"
  /** Bodies with `?` in place of the value. */
  readonly bodies: (target: Target) => ReadonlyArray<string>
}

const task = `"assistant_id":1,"input":[{"type":"text","text":"x"}]`

const event = ({ runId, uuid }: Target, more: string) =>
  `{"task_id":"${uuid}","run_id":"${runId}","event_id":"${randomUUID()}",${more}}`

/** Every endpoint that accepts JSON, with bodies that place the value in each field; a missing endpoint fails a test. */
const places: Readonly<Record<string, Place>> = {
  "tasks.create": {
    path: () => "/api/tasks",
    as: "newcomer",
    bodies: () => [
      `?`,
      `{"assistant_id":1,"input":?}`,
      `{"assistant_id":1,"input":[{"type":"text","text":?}]}`,
      `{${task},"turns":?}`,
      `{${task},"turns":[{"role":"user","content":[{"type":"text","x":?}]}]}`,
      `{${task},"client_tools":[{"type":"function","name":"x","parameters":?}]}`,
      `{${task},"callback_url":?}`,
      `{${task},"metadata":?}`
    ]
  },
  "tasks.rerun": {
    path: ({ uuid }) => `/api/tasks/${uuid}/rerun`,
    as: "owner",
    bodies: () => [`{"turns":[{"role":"user","content":[{"type":"text","x":?}]}]}`, `{"metadata":{"x":?}}`]
  },
  "tasks.submitToolResults": {
    path: ({ uuid }) => `/api/tasks/${uuid}/tool-results`,
    as: "owner",
    bodies: () => [`{"results":?}`, `{"results":[{"tool_call_id":"other","output":?}]}`]
  },
  "tasks.cancel": {
    path: ({ uuid }) => `/api/tasks/${uuid}/cancel`,
    as: "owner",
    bodies: () => [`{"reason":?}`]
  },
  "tasks.cancelInterrupted": { path: () => "/api/tasks/cancel-interrupted", as: "newcomer", bodies: () => [`?`] },
  "tasks.redeliver": {
    path: ({ deliveryId, uuid }) => `/api/tasks/${uuid}/deliveries/${deliveryId}/redeliver`,
    as: "owner",
    bodies: () => [`{"callback_secret":"x","more":?}`]
  },
  "core.report": {
    path: () => "/internal/core/events",
    as: "internal",
    bodies: (target) => [
      event(target, `"type":"interrupted","tool_calls":?`),
      event(target, `"type":"interrupted","tool_calls":[{"id":"c","name":"n","arguments":?}],"state":1`),
      event(target, `"type":"interrupted","tool_calls":[{"id":"c","name":"n","arguments":{}}],"state":?`),
      event(target, `"type":"progress","turn":{"output":?}`)
    ]
  },
  "tokens.revoke": { path: () => "/internal/tokens/revoke", as: "internal", bodies: () => [`{"jti":"x","more":?}`] },
  "operator.cancel": {
    path: ({ uuid }) => `/internal/operator/tasks/${uuid}/cancel`,
    as: "internal",
    bodies: () => [`{"reason":?}`]
  },
  "operator.redeliver": {
    path: () => "/internal/operator/deliveries/redeliver",
    as: "internal",
    bodies: () => [`{"ids":?}`, `{"dry_run":true,"filter":?}`]
  },
  "operator.revoke": {
    path: () => "/internal/operator/revocations",
    as: "internal",
    bodies: () => [`{"jti":"x","more":?}`]
  }
}

/** Other tests cover multipart forms; deletions and moves of nodes read no body. */
const withoutJson = new Set(["files.upload", "tasks.delete", "operator.drain", "operator.takeIn"])

const victim = await use(startVictim({ WEBHOOK_ALLOW_PRIVATE: "true" }))
// Long turns during its start are reported late.
await victim.observe(() => new Promise((resolve) => setTimeout(resolve, 1000)))

/** An interrupted task with a pending webhook. */
const makeTarget = async (): Promise<Target> => {
  const token = await mint(randomUUID())
  const { body: { uuid } } = await victim.service.create(token, "Why?", { callback_url: "http://127.0.0.1:9/" })
  const run = await victim.runOf(uuid)
  await interrupt(run)
  return { uuid, runId: run.run_id, deliveryId: `${uuid}-1`, token }
}

const tokensOf = (place: Place, target: Target, count: number) =>
  Promise.all(Array.from({ length: count }, () =>
    place.as === "owner"
      ? target.token
      : place.as === "internal"
      ? internalToken
      : mint(randomUUID())))

const volleyOf = async (
  place: Place,
  target: Target,
  template: string,
  shape: Shape,
  bytes: number,
  count = 1
): Promise<Volley> => {
  const [before = "", after = ""] = template.split("?")
  const tokens = await tokensOf(place, target, count)
  return { path: place.path(target), tokens, shape, around: [before, after], bytes }
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
    assert.deepStrictEqual(unexpected, [], `${shape} in ${around.join("?")}`)
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
  it("is sent to every endpoint that takes JSON", () => {
    const endpoints = Object.entries(Api.groups).flatMap(([group, { endpoints }]) =>
      Object.entries(endpoints).flatMap(([name, { method }]) => method === "GET" ? [] : [`${group}.${name}`])
    )
    assert.deepStrictEqual(
      Object.keys(places).toSorted(),
      endpoints.filter((id) => !withoutJson.has(id)).toSorted()
    )
  })

  it.each(Object.entries(places))("does not delay other requests at %s", async (_, place) => {
    const target = await makeTarget()
    const volleys = await Promise.all(
      place.bodies(target).flatMap((template) => names.map((shape) => volleyOf(place, target, template, shape, small)))
    )
    assert.deepStrictEqual(excessOf(await costOf(volleys, answers)), none)
  })
})

describe(`${crowd} concurrent bodies of 16 MiB`, () => {
  const create = places["tasks.create"]!
  const inTurns = `{${task},"turns":[{"role":"user","content":[{"type":"text","x":?}]}]}`

  it.each(["numbers", "small objects", "many keys"] as const)("do not delay other requests: %s", async (shape) => {
    const volley = await volleyOf(create, await makeTarget(), inTurns, shape, largest, crowd)
    assert.deepStrictEqual(excessOf(await costOf([volley], [422])), none)
  })

  it.each(["one long text", "text of escapes", "text of two bytes"] as const)("are accepted: %s", async (shape) => {
    const volley = await volleyOf(create, await makeTarget(), inTurns, shape, largest, crowd)
    assert.deepStrictEqual(excessOf(await costOf([volley], [201])), none)
  }, 180_000)
})
