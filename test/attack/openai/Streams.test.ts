/** Many streams of one response, whose large text all of them receive when it ends. */
import { it } from "vitest"
import { complete } from "../../kit/ScriptedCore.ts"
import { mint } from "../../kit/Service.ts"
import { use } from "../../kit/suite.ts"
import { assertShared } from "../kit/read.ts"
import { startVictim } from "../kit/Victim.ts"

const turnBytes = 15 * 1024 * 1024
const streams = 40

const victim = await use(startVictim({ FACADE_MODELS: "gpt-5=1" }))

// oxlint-disable-next-line vitest/expect-expect -- `assertShared` asserts
it(`a turn of 15 MiB ends ${streams} streams of a response`, async () => {
  const token = await mint("owner")
  const request = { model: "gpt-5", input: "x", background: true }
  const { id } = (await victim.service.call("POST", "/v1/responses", token, request)).body
  const uuid = String(id).slice(5, 37).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  const run = await victim.runOf(uuid)
  const paths = Array.from({ length: streams }, () => `/v1/responses/${id}?stream=true`)
  await assertShared(victim, { token, paths }, turnBytes, () => complete(run, "x".repeat(turnBytes)))
}, 120_000)
