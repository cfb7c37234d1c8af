/** Calls of the internal interface and the bytes of their responses, over the test kit. Its clock makes moments repeatable. */
import { InternalRpc } from "../../src/http/contract/rpc/Rpc.ts"
import { createTestService, internalToken, type PlainTestService } from "../../src/runtime/testing/Testing.ts"

const input = [{ type: "text", text: "x" }]
const turn = { output: [{ type: "text", text: "done" }], messages: [], metadata: {} }
const sub = "ann"

/** Replaces each id by its number in the order of appearance. */
const makeNormalize = () => {
  const numbers = new Map<string, number>()
  return (text: string) =>
    text.replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, (id) => {
      const number = numbers.get(id) ?? numbers.size + 1
      numbers.set(id, number)
      return `<id ${number}>`
    })
}

const makeCall = (service: PlainTestService, lines: Array<string>) => {
  const called = new Set<string>()
  const normalize = makeNormalize()
  /** Calls in one POST. Returns the last line of the response. */
  const call = async (...calls: ReadonlyArray<readonly [string, unknown]>) => {
    const request = calls.map(([tag, payload], index) => {
      called.add(tag)
      return JSON.stringify({ _tag: "Request", id: String(index + 1), tag, payload, headers: [] })
    }).join("\n")
    const response = await service.fetch(`${service.url}/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/ndjson" },
      body: request
    })
    const text = (await response.text()).trimEnd()
    lines.push(
      ...request.split("\n").map((line) => `> ${normalize(line)}`),
      `< ${response.status} ${response.headers.get("content-type")}`,
      ...text.split("\n").map((line) => `< ${normalize(line)}`),
      ""
    )
    // oxlint-disable-next-line typescript/no-explicit-any -- responses of every shape
    return JSON.parse(text.split("\n").at(-1) ?? "") as any
  }
  return { call, called }
}

export const transcripts = async () => {
  const service = await createTestService()
  const lines: Array<string> = []
  const { call, called } = makeCall(service, lines)
  const create = async (more: object = {}) => {
    const { exit } = await call(["Tasks.create", { sub, task: { assistant_id: 1, input, ...more } }])
    return String(exit.value.uuid)
  }
  const report = async (uuid: string, event: object, event_id = "e1") => {
    const { runId } = await service.core.runOf(uuid)
    return call(["Core.report", { event: { task_id: uuid, run_id: runId, event_id, ...event } }])
  }
  const missing = "00000000-0000-4000-8000-000000000000"

  const first = await create({ metadata: { order: "1" } })
  await call(["Tasks.create", { sub, task: { assistant_id: 0, input: [] } }])
  await call(["Tasks.create", { sub, task: { assistant_id: 1, input }, idempotency_key: "k" }])
  await call(["Tasks.create", { sub, task: { assistant_id: 2, input }, idempotency_key: "k" }])
  await call(["Tasks.get", { sub, uuid: first }])
  await call(["Tasks.get", { sub: "bob", uuid: first }])
  await call(["Tasks.get", { sub, uuid: missing, include: ["request"] }])
  await report(first, { type: "progress", turn })
  await report(first, { type: "progress" }, "e2")
  const tool_calls = [{ id: "c1", name: "look", arguments: { where: "here" } }]
  await report(first, { type: "interrupted", tool_calls, state: 1 }, "e3")
  await call(["Tasks.submitToolResults", { sub, uuid: first, body: { results: [] } }])
  const results = { results: [{ tool_call_id: "c1", output: [1] }] }
  await call(["Tasks.submitToolResults", { sub, uuid: first, body: results }])
  await call(["Tasks.submitToolResults", { sub, uuid: first, body: results }])
  await call(["Tasks.cancel", { sub, uuid: first }])
  await call(["Tasks.delete", { sub, uuid: first }])
  await report(first, { type: "completed", turn }, "e4")
  await report(first, { type: "completed", turn }, "e5")
  await call(["Tasks.watch", { sub, uuid: first, after: -1, include: ["turn"] }])
  await call(["Tasks.watch", { sub: "bob", uuid: first }])
  await call(["Tasks.rerun", { sub, uuid: first, body: { llm_model_id: 7 } }])
  const second = await create()
  await report(second, { type: "interrupted", tool_calls })
  await call(["Tasks.cancel", { sub, uuid: second, body: { reason: "no" } }])
  const third = await create()
  await report(third, { type: "interrupted", tool_calls })
  await call(["Tasks.cancelInterrupted", { sub }])
  const fourth = await create()
  await report(fourth, { type: "failed", code: "payment_required" })
  await call(["Core.report", { event: { task_id: missing, run_id: missing, event_id: "e", type: "processing" } }])
  await call(["Core.report", { event: { type: "unknown" } }])
  const fifth = await create()
  await call(["Tasks.withdraw", { sub, uuid: fifth, body: { reason: "late" } }])
  await call(["Tasks.withdraw", { sub, uuid: fifth }])
  await call(["Tasks.list", { sub, status: ["completed", "failed"], page: 1, per_page: 2 }])
  await call(["Tasks.list", { sub, metadata: { order: "1" }, include: ["metadata"] }])
  await call(["Tasks.list", { sub, status: ["done"], per_page: 0 }])
  await call(["Tasks.delete", { sub, uuid: first }], ["Tasks.delete", { sub, uuid: second }])
  await call(["Tokens.isRevoked", { token: { jti: "j" } }])
  await call(["Tokens.revoke", { revocation: { jti: "j" } }])
  await call(["Tokens.isRevoked", { token: { jti: "j" } }])
  await call(["Tokens.revoke", { revocation: {} }])
  for (let count = 0; count < 5; count++) await create().catch(() => undefined)
  await call(["Tasks.nothing", {}])
  await service.close()

  const uncalled = [...InternalRpc.requests.keys()].filter((tag) => !called.has(tag))
  if (uncalled.length > 0) throw new Error(`test/golden/rpc.ts does not call ${uncalled.join(", ")}`)
  return { "rpc.txt": lines.join("\n") }
}
