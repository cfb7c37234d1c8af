/** One task from create to completion: everything opaque to the gateway arrives unchanged. */
import type { Arbitrary } from "effect"
import { assert } from "vitest"
import { interrupt, report } from "../ScriptedCore.ts"
import { write } from "./Json.ts"
import type { stories } from "./ValidBodies.ts"
import type { World } from "./World.ts"

type Story = typeof stories extends Arbitrary.Arbitrary<infer A> ? A : never

/** The value after JSON encoding, which drops undefined fields and the sign of zero. */
const sent = (value: unknown) => JSON.parse(write(value))

export const runStory = async (world: World, { calls, partialTurn, request, results, state, turn }: Story) => {
  const { core, service } = world
  const { run, token, uuid } = await world.begin(write(request))
  const { client_tools = [], turns = [], ...plain } = sent(request)
  assert.deepStrictEqual(run.input, plain.input)
  assert.strictEqual(run["assistant_id"], plain.assistant_id)
  const spliced = turns.flatMap((item: object) => "messages" in item && !("role" in item) ? item.messages : [item])
  assert.deepStrictEqual(run["turns"], spliced)
  const names = client_tools?.map((tool: { name?: string; function?: { name: string } }) =>
    tool.function?.name ?? tool.name
  )
  assert.deepStrictEqual((run["client_tools"] as ReadonlyArray<{ name: string }>).map(({ name }) => name), names ?? [])

  const asked = (await service.call("GET", `/api/tasks/${uuid}?include=request`, token)).body.request
  for (const name of ["input", "turns", "client_tools"]) {
    assert.deepStrictEqual(asked[name], run[name as keyof typeof run])
  }
  assert.deepStrictEqual(asked.metadata, plain.metadata ?? {})

  assert.strictEqual((await interrupt(run, { tool_calls: calls, state, turn: partialTurn })).status, 200)
  const interrupted = (await service.get(token, uuid)).body
  assert.deepStrictEqual([interrupted.pending_tool_calls, interrupted.turn], [sent(calls), sent(partialTurn)])

  const answer = await service.call("POST", `/api/tasks/${uuid}/tool-results`, token, write({ results }))
  assert.deepStrictEqual([answer.status, answer.body], [200, { uuid, status: "processing" }])
  const resumed = await core.run(uuid, run)
  assert.deepStrictEqual(resumed.resume, sent({ state, results }))

  assert.strictEqual((await report(resumed, { type: "completed", turn })).status, 200)
  const completed = (await service.get(token, uuid)).body
  assert.deepStrictEqual([completed.status, completed.turn], ["completed", sent(turn)])
}
