/**
 * kill −9 before, during and after a send: each round starts a node, has tasks end, kills it at a random moment, and starts
 * another that finishes what is owed. What the target saw and what the ledger says must agree with "1 to 5 POSTs".
 */
import { report, type ScriptedCore, type StartedRun, turnOf } from "./ScriptedCore.ts"
import { eventually, freePort, mint, Service } from "./Service.ts"
import type { WebhookTarget } from "./WebhookTarget.ts"

interface World {
  readonly databaseUrl: string
  readonly core: ScriptedCore
  readonly target: WebhookTarget
  /** From 0 to 1. */
  readonly random: () => number
  /** How many of all answers are failures, from 0 to 1. */
  readonly failing: number
}

/** Short, so that a lost attempt comes again soon: it counts as lost after this and 5 s, and 10 s later is the next. */
const timeout = 500

export const chaosRounds = async ({ core, databaseUrl, failing, random, target }: World, rounds: number) => {
  const settings = {
    DATABASE_URL: databaseUrl,
    CORE_URL: core.url,
    WEBHOOK_ALLOW_PRIVATE: "true",
    WEBHOOK_TIMEOUT: `${timeout} millis`,
    MAX_ACTIVE_TASKS: "1000",
    LOG_LEVEL: "Error"
  }
  // Some answers are slow, some fail: so that a kill meets attempts before, in and after their POST.
  target.onPost = (_, response) => {
    const fails = random() < failing
    setTimeout(() => response.writeHead(fails ? 500 : 204).end(), random() * 100)
  }
  // As a core does: until it is heard.
  const insist = (run: StartedRun) =>
    eventually(
      () =>
        report(run, { event_id: run.run_id, type: "completed", turn: turnOf("done") }).then(
          ({ status }) => status < 500,
          () => false
        ),
      (heard) => heard,
      60_000
    )
  const reports: Array<Promise<unknown>> = []
  const uuids: Array<string> = []
  const token = await mint("chaos")
  const port = await freePort()
  let service = await Service.start(settings, port)
  for (let round = 0; round < rounds; round++) {
    const created = await Promise.all(
      [1, 2, 3].map(() =>
        service.create(token, "x", { callback_url: `${target.origin}/hook`, callback_secret: "secret" })
      )
    )
    const ids = created.map(({ body }) => String(body.uuid))
    uuids.push(...ids)
    const runs = await Promise.all(ids.map((id) => eventually(async () => core.runOf(id), (run) => run !== undefined)))
    reports.push(...runs.map((run) => insist(run!)))
    // A report takes some milliseconds, and a POST up to 100.
    await new Promise((resolve) => setTimeout(resolve, random() * 120))
    await service.stop("SIGKILL")
    service = await Service.start(settings, port)
  }
  await Promise.all(reports)
  const outcomes = []
  for (const uuid of uuids) {
    const { body } = await eventually(
      () => service.call("GET", `/api/tasks/${uuid}/deliveries`, token),
      (answer) => answer.body.data.length > 0 && answer.body.data[0].state !== "pending",
      300_000
    )
    const [{ attempts, state }] = body.data
    const errors: ReadonlyArray<string | null> = attempts.map(({ error }: { error: string | null }) => error)
    outcomes.push({ posts: target.postsOf(uuid), state: String(state), errors })
  }
  await service.stop()
  return outcomes
}
