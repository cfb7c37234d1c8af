/** Two nodes book usage once, whichever of them is killed between which events. */
import { assert, it } from "vitest"
import { type StartedRun, toolCall } from "../../kit/ScriptedCore.ts"
import { eventually, freePort, internalToken, mint, Service } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { startSystem } from "../../kit/System.ts"

const system = await use(startSystem({ CLUSTER: "on", CLUSTER_PORT: String(await freePort()) }))
const startNode = async () => Service.start({ ...system.settings, CLUSTER_PORT: String(await freePort()) })
const nodes = [system.service, await startNode()]

/** Reports an event to one node after the other until one of them has taken it, as a core does. */
const reported = (run: StartedRun, event: object, first: number) => {
  let attempt = first
  const body = { event_id: crypto.randomUUID(), ...event, task_id: run.task_id, run_id: run.run_id }
  return eventually(
    () =>
      nodes[attempt++ % nodes.length]!.call("POST", "/internal/core/events", internalToken, body).then(
        ({ status }) => status,
        () => 0
      ),
    (status) => status === 200 || status === 409
  )
}

const turn = (input: number) => ({
  output: [],
  messages: [],
  metadata: { model: "m", usage: { input_tokens: input, output_tokens: 1 } }
})

it("books each token once while nodes are killed between any two events", async () => {
  const token = await mint("crashing")
  let expected = 0
  for (let round = 0; round < 4; round++) {
    const node = nodes[round % nodes.length]!
    const made = await eventually(() => node.create(token, "x"), ({ status }) => status === 201)
    const run = await system.runOf(made.body.uuid)
    await reported(run, { type: "interrupted", tool_calls: [toolCall], turn: turn(10) }, round)
    const victim = (round + (round < 2 ? 0 : 1)) % nodes.length
    if (round % 2 === 0) {
      nodes[victim]!.signal("SIGKILL")
      nodes[victim] = await startNode()
    }
    const results = { results: [{ tool_call_id: toolCall.id, output: 1 }] }
    const path = `/api/tasks/${made.body.uuid}/tool-results`
    await eventually(() => nodes[round % 2]!.call("POST", path, token, results), ({ status }) => status === 200)
    const next = await system.runOf(made.body.uuid, run)
    const done = { type: "completed", turn: turn(100 + round) }
    // The last event is killed over, and repeated.
    const sent = reported(next, done, round)
    if (round % 2 === 1) {
      nodes[victim]!.signal("SIGKILL")
      nodes[victim] = await startNode()
    }
    await sent
    await reported(next, done, round + 1)
    expected += 101 + round
  }
  for (const node of nodes) {
    const { body } = await node.call("GET", "/api/usage?step=total", token)
    assert.deepInclude(body.totals, { total_tokens: expected, tasks: 4, unmetered_tasks: 0 })
  }
  await eventually(
    () => system.database.query("SELECT FROM usage_outbox LIMIT 1"),
    (rows) => rows.length === 0,
    20_000
  )
  const { body } = await nodes[1]!.call("GET", "/api/usage?step=total", token)
  assert.deepInclude(body.totals, { total_tokens: expected, tasks: 4 })
  await nodes[1]!.stop()
  if (nodes[0] !== system.service) await nodes[0]!.stop()
}, 120_000)
