/** The state machine: each trigger on a task in each status, and what follows. Everything is typed by hand. */
import { assert, describe, it } from "vitest"
import { type Answer, eventually } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { type Door, Gateway, type Run } from "./Gateway.ts"

const statuses = ["pending", "processing", "interrupted", "completed", "failed", "canceled"] as const
type Status = typeof statuses[number]

/**
 * What becomes of the task: the status to which it moves; `refused`, the caller gets 409 and nothing changes; `ignored`, the core
 * gets 200 with `applied: false` and nothing changes; `stays`, nothing answers and nothing changes.
 */
type Outcome = Status | "refused" | "ignored" | "stays"

const refusedAtTheEnd = { completed: "refused", failed: "refused", canceled: "refused" } as const
const staysAtTheEnd = { completed: "stays", failed: "stays", canceled: "stays" } as const

const table = {
  // Events of the current run. A later one implies that the core accepted the run.
  "processing notification": {
    pending: "processing",
    processing: "ignored",
    interrupted: "ignored",
    ...refusedAtTheEnd
  },
  "progress": { pending: "processing", processing: "processing", interrupted: "ignored", ...refusedAtTheEnd },
  "client tool call": { pending: "interrupted", processing: "interrupted", interrupted: "ignored", ...refusedAtTheEnd },
  "success": { pending: "completed", processing: "completed", interrupted: "ignored", ...refusedAtTheEnd },
  "core error": { pending: "failed", processing: "failed", interrupted: "ignored", ...refusedAtTheEnd },
  // Calls.
  "tool results": { pending: "refused", processing: "refused", interrupted: "processing", ...refusedAtTheEnd },
  "cancel": { pending: "refused", processing: "refused", interrupted: "canceled", ...refusedAtTheEnd },
  "stop": { pending: "canceled", processing: "canceled", interrupted: "canceled", ...refusedAtTheEnd },
  "cancel-interrupted": { pending: "stays", processing: "stays", interrupted: "canceled", ...staysAtTheEnd },
  "withdrawal": { pending: "canceled", processing: "canceled", interrupted: "canceled", ...refusedAtTheEnd },
  // A pending task fails when it would start processing, and the results of an interrupted one bring another token.
  "token revoked": { pending: "stays", processing: "failed", interrupted: "stays", ...staysAtTheEnd },
  // Time.
  "not accepted in time": { pending: "failed", processing: "stays", interrupted: "stays", ...staysAtTheEnd },
  "time limit": { pending: "failed", processing: "failed", interrupted: "failed", ...staysAtTheEnd }
} as const satisfies Record<string, Record<Status, Outcome>>

type Trigger = keyof typeof table

const turn = (text: string) => ({ output: [{ type: "text", text }], messages: [], metadata: {} })
const calls = [{ id: "c1", name: "look", arguments: { where: "here" } }]
const results = { results: [{ tool_call_id: "c1", output: 1 }] }

const events = {
  "processing notification": { type: "processing" },
  "progress": { type: "progress", turn: turn("so far") },
  "client tool call": { type: "interrupted", tool_calls: calls },
  "success": { type: "completed", turn: turn("done") },
  "core error": { type: "failed", code: "internal" }
} as const

/** The `error` that a trigger leaves, where it leads to `failed` or `canceled`. */
const errors = (limits: { readonly acceptance: number; readonly limit: number }): Partial<Record<Trigger, string>> => ({
  "core error": "Task processing failed",
  "cancel": "not today",
  "stop": "not today",
  "withdrawal": "not today",
  "token revoked": "Token revoked",
  "not accepted in time": `Task was not accepted by the processing core within ${limits.acceptance} s`,
  "time limit": `Task exceeded maximum execution time (${limits.limit}s)`
})

/** Triggers that end a run which the core may still work on: it is asked to stop. */
const stopping: ReadonlySet<Trigger> = new Set([
  "cancel",
  "stop",
  "cancel-interrupted",
  "withdrawal",
  "token revoked",
  "not accepted in time",
  "time limit"
])

interface Held {
  readonly status: Status
  readonly sub: string
  readonly token: string
  readonly uuid: string
  readonly run: Run
  /** Statuses of the webhooks so far. */
  readonly told: ReadonlyArray<string>
}

let subs = 0

/** A task in a status, of a user of its own. */
export const hold = async (gateway: Gateway, status: Status, more: object = {}): Promise<Held> => {
  const sub = `held-${++subs}`
  const token = await gateway.service.token(sub)
  const { uuid } = (await gateway.create(token, { callback_url: gateway.service.hookUrl, ...more })).body
  const run = await gateway.service.run(uuid)
  const reach = async (event: object) => assert.strictEqual((await gateway.report(run, event)).status, 200)
  const told: Array<string> = []
  if (status !== "pending") await reach(events["processing notification"])
  if (status === "interrupted" || status === "canceled") {
    await reach(events["client tool call"])
    told.push("interrupted")
  }
  if (status === "completed") await reach(events.success)
  if (status === "failed") await reach(events["core error"])
  if (status === "canceled") {
    assert.strictEqual((await gateway.call("POST", `/api/tasks/${uuid}/cancel`, token)).status, 200)
  }
  if (status === "completed" || status === "failed" || status === "canceled") told.push(status)
  assert.strictEqual((await gateway.get(token, uuid)).body.status, status)
  return { status, sub, token, uuid, run, told }
}

/** Carries out a trigger that is a call; undefined for what only time does. */
const pull = (gateway: Gateway, trigger: Trigger, { run, sub, token, uuid }: Held): Promise<Answer> | undefined => {
  switch (trigger) {
    case "tool results":
      return gateway.call("POST", `/api/tasks/${uuid}/tool-results`, token, results)
    case "cancel":
      return gateway.call("POST", `/api/tasks/${uuid}/cancel`, token, { reason: "not today" })
    case "stop":
      return gateway.call("POST", `/api/tasks/${uuid}/stop`, token, { reason: "not today" })
    case "cancel-interrupted":
      return gateway.call("POST", "/api/tasks/cancel-interrupted", token)
    case "withdrawal":
      return gateway.rpc("Tasks.withdraw", { sub, uuid, body: { reason: "not today" } })
    case "token revoked":
      return gateway.revoke(token)
    case "not accepted in time":
    case "time limit":
      return undefined
    default:
      return gateway.report(run, events[trigger])
  }
}

const isEvent = (trigger: Trigger) => trigger in events

/** Checks the response to the trigger. */
const checkAnswer = (trigger: Trigger, { status, uuid }: Held, outcome: Outcome, answer: Answer) => {
  if (trigger === "withdrawal") {
    const { _tag, cause, value } = answer.body.exit
    if (outcome === "refused") assert.deepStrictEqual([_tag, cause[0].error.status], ["Failure", status])
    else assert.deepStrictEqual([_tag, value], ["Success", { uuid, status: outcome }])
  } else if (trigger === "token revoked") {
    assert.deepStrictEqual([answer.status, answer.body], [204, ""])
  } else if (trigger === "cancel-interrupted") {
    const uuids = outcome === "canceled" ? [uuid] : []
    assert.deepStrictEqual([answer.status, answer.body], [200, { canceled: uuids.length, uuids }])
  } else if (outcome === "refused") {
    assert.strictEqual(answer.status, 409)
    assert.isString(answer.body.message)
    if (isEvent(trigger)) assert.strictEqual(answer.body.status, status)
  } else if (isEvent(trigger)) {
    const applied = outcome !== "ignored"
    assert.deepStrictEqual(
      [answer.status, answer.body],
      [200, { status: applied ? outcome : status, applied }]
    )
  } else {
    assert.deepStrictEqual([answer.status, answer.body], [200, { uuid, status: outcome }])
  }
}

const isFinal = (status: Status) => status === "completed" || status === "failed" || status === "canceled"

/** Checks the task, the stop of its run and its webhooks after the trigger. `before` is the task as it was. */
const checkTask = async (
  gateway: Gateway,
  trigger: Trigger,
  held: Held,
  outcome: Outcome,
  before: Answer["body"],
  error: string | null
) => {
  const { run, told, token, uuid } = held
  if (outcome === "refused" || outcome === "ignored" || outcome === "stays") {
    assert.deepStrictEqual((await gateway.get(token, uuid)).body, before)
    assert.sameMembers(await gateway.told(uuid, told.length), [...told])
    return
  }
  const { completed_at, created_at, ...after } = await gateway.until(token, uuid, outcome)
  const partial = { progress: turn("so far"), success: turn("done") }
  assert.deepStrictEqual(after, {
    uuid,
    status: outcome,
    turn: trigger === "progress" || trigger === "success" ? partial[trigger] : null,
    error,
    ...(outcome === "interrupted" ? { pending_tool_calls: calls } : {})
  })
  assert.strictEqual(created_at, before.created_at)
  if (isFinal(outcome)) assert.isAtLeast(Date.parse(completed_at), Date.parse(created_at))
  else assert.isNull(completed_at)
  const sent = isFinal(outcome) || outcome === "interrupted" ? [...told, outcome] : [...told]
  assert.sameMembers(await gateway.told(uuid, sent.length), sent)
  if (stopping.has(trigger)) await eventually(async () => gateway.service.stops(run), ({ length }) => length > 0)
  else assert.isEmpty(gateway.service.stops(run))
  if (outcome === "processing" && trigger === "tool results") await gateway.service.run(uuid, run)
}

/** Returns the tasks that it checked. */
const checkRow = async (gateway: Gateway, trigger: Trigger, door: Door) => {
  const error = errors(door)[trigger] ?? null
  const more = trigger === "time limit" ? { max_execution_time: door.limit } : {}
  const tasks = await Promise.all(statuses.map((status) => hold(gateway, status, more)))
  const before = await Promise.all(tasks.map(({ token, uuid }) => gateway.get(token, uuid)))
  if (trigger === "not accepted in time") await gateway.service.pass(door.acceptance)
  if (trigger === "time limit") await gateway.service.pass(door.limit)
  await Promise.all(tasks.map(async (held, index) => {
    const outcome = table[trigger][held.status]
    const answer = await pull(gateway, trigger, held)
    if (answer !== undefined) checkAnswer(trigger, held, outcome, answer)
    // The token is no longer accepted: another of the user's reads.
    const token = trigger === "token revoked" ? await gateway.service.token(held.sub, { jti: "another" }) : held.token
    await checkTask(gateway, trigger, { ...held, token }, outcome, before[index]!.body, error)
  }))
  return tasks
}

export const transitions = (door: Door) => {
  describe("a trigger on a task in each status", async () => {
    const gateway = await use(Gateway.start(door))
    for (const trigger of Object.keys(table) as ReadonlyArray<Trigger>) {
      if (trigger === "not accepted in time") continue
      const { pending, processing, interrupted } = table[trigger]
      it(`${trigger}: ${pending}, ${processing}, ${interrupted}; an ended task never changes`, async () =>
        assert.lengthOf(await checkRow(gateway, trigger, door), 6))
    }
  })

  describe("a core that does not confirm", () => {
    it("fails the pending task when the acceptance time-out has passed, and no other", async () => {
      const gateway = await Gateway.start(door, "acceptance")
      try {
        assert.lengthOf(await checkRow(gateway, "not accepted in time", door), 6)
      } finally {
        await gateway.close()
      }
    })
  })
}
