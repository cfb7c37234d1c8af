/** Many clients that wait for one task, whose large turn all of them receive when it changes. */
import { assert, it } from "vitest"
import { complete, interrupt, report, turnOf } from "../kit/ScriptedCore.ts"
import { mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { assertShared } from "./kit/read.ts"
import { startVictim } from "./kit/Victim.ts"

const turnBytes = 15 * 1024 * 1024
const pollers = 60

const victim = await use(startVictim())

// oxlint-disable-next-line vitest/expect-expect -- `assertShared` asserts
it(`a turn of 15 MiB ends ${pollers} long polls`, async () => {
  const token = await mint("owner")
  const { uuid } = (await victim.service.create(token, "x")).body
  const run = await victim.runOf(uuid)
  await report(run, { type: "progress", turn: turnOf("x".repeat(turnBytes)) })
  const paths = Array.from({ length: pollers }, () => `/api/tasks/${uuid}?wait=60`)
  await assertShared(victim, { token, paths }, turnBytes, () => interrupt(run))
}, 120_000)

it("a burst of one user is not above the limit of 1,000 waiting requests", async () => {
  const token = await mint("bursting")
  const { uuid } = (await victim.service.create(token, "x")).body
  const run = await victim.runOf(uuid)
  const burst = await Promise.all(
    Array.from(
      { length: 1500 },
      () => fetch(`${victim.service.url}/api/tasks/${uuid}/events`, { headers: { authorization: `Bearer ${token}` } })
    )
  )
  const texts = burst.map((response) => response.text())
  await complete(run)
  const followed = (await Promise.all(texts)).filter((text) => text.includes("completed"))
  assert.isAtMost(followed.length, 1000)
  assert.isAtLeast(followed.length, 900)
}, 120_000)
