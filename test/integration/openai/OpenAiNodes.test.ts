/** The OpenAI façade on two nodes: a tool loop survives the end of the node that created it. */
import { assert, it } from "vitest"
import { startCluster } from "../../kit/ClusterSystem.ts"
import { complete as completeRun, interrupt, report, turnOf } from "../../kit/ScriptedCore.ts"
import { use } from "../../kit/suite.ts"
import { all, callsOf, clientOf, complete, ended, toolCalls, uuidOf } from "./OpenAi.ts"

const system = await use(startCluster())
const { core, service } = system

it("continues responses and streams on another node after kill -9 between the calls", async () => {
  const other = await use(system.startNode())
  const [client, elsewhere] = [await clientOf(service, "nodes"), await clientOf(other, "nodes")]
  const first = await client.responses.create({ model: "1", input: "go", background: true })
  const run = await core.run(uuidOf(first.id))
  await report(run, { type: "progress", turn: turnOf("Loo") })
  await interrupt(run, { tool_calls: toolCalls(1), turn: turnOf("Looking.") })
  const asked = await ended(client, first.id)
  await service.stop("SIGKILL")
  assert.deepStrictEqual(complete(await elsewhere.responses.retrieve(first.id)), asked)
  const second = await elsewhere.responses.create({
    model: "1",
    input: callsOf(asked).map(({ call_id }) => ({ type: "function_call_output", call_id, output: "1" })),
    previous_response_id: first.id,
    background: true
  })
  const resumed = await core.run(uuidOf(second.id), run)
  await completeRun({ ...resumed, events_url: `${other.url}/internal/core/events` }, "Found.")
  assert.strictEqual((await ended(elsewhere, second.id)).output_text, "Found.")
  const events = await all(
    await elsewhere.responses.retrieve(first.id, { stream: true, starting_after: 4 + "Loo".length })
  )
  assert.deepStrictEqual(
    events.flatMap((event) => event.type === "response.output_text.delta" ? [event.delta] : []),
    ["king."]
  )
  const done = events.find((event) => event.type === "response.output_text.done")
  assert.deepStrictEqual([done?.text, done?.sequence_number], ["Looking.", 2 ** 30])
}, 60_000)
