/**
 * The cost of webhook endpoints: CPU of the service and of Postgres for each task that is created and completed, in alternating rounds of two
 * services, of which one has no endpoint, and in the last comparison a `callback_url`. With three endpoints also changes a second until all are
 * delivered.
 */
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"
import { numbersOf, repeat, startBench, startScript } from "./bench.ts"
import { cpuOfProcess, cpuOfTree } from "./processes.ts"

const { rounds, tasks } = numbersOf({ rounds: 3, tasks: 1500 })
const target = await new WebhookTarget().listen()
const tokens = await Promise.all(Array.from({ length: 64 }, (_, user) => mint(`user-${user}`)))

const startSide = async () => {
  const core = await startScript("immediateCore.ts", {})
  const bench = await startBench({ WEBHOOK_ALLOW_PRIVATE: "true", CORE_URL: core.url })
  const service = await bench.start()
  const cpu = () => ({ service: cpuOfProcess(service.process.pid!), database: cpuOfTree(bench.database.pid()) })
  const left = async (statement: string) => Number((await bench.sql.unsafe(statement))[0]!["left"])
  const run = async (fields: object = {}) => {
    const before = cpu()
    const begun = performance.now()
    let index = 0
    await repeat(32, (calls) => calls >= tasks, () => service.create(tokens[index++ % tokens.length]!, "1 + 1", fields))
    await eventually(
      () => left("SELECT count(*) AS left FROM tasks WHERE completed_at IS NULL"),
      (n) => n === 0,
      60_000,
      100
    )
    await eventually(
      () =>
        left(
          `SELECT (SELECT count(*) FROM webhook_deliveries WHERE due_at IS NOT NULL) + count(*) AS left
          FROM webhook_endpoint_deliveries d JOIN webhook_endpoints w ON w.id = d.endpoint_id
          WHERE due_at IS NOT NULL AND w.url IS NOT NULL`
        ),
      (n) => n === 0,
      60_000,
      100
    )
    const after = cpu()
    const seconds = (performance.now() - begun) / 1000
    await bench.sql.unsafe("TRUNCATE tasks, webhook_endpoint_deliveries, webhook_endpoint_bodies CASCADE")
    return {
      rate: tasks / seconds,
      service: (after.service - before.service) / tasks,
      database: (after.database - before.database) / tasks
    }
  }
  const only = async (...endpoints: ReadonlyArray<object>) => {
    await bench.sql.unsafe("TRUNCATE webhook_endpoints")
    for (const endpoint of endpoints) {
      const { body, status } = await service.call("POST", "/internal/webhook-endpoints", internalToken, endpoint)
      if (status !== 201) throw new Error(JSON.stringify(body))
    }
  }
  return { ...bench, service, run, only }
}

const [without, having] = [await startSide(), await startSide()]
const sent = (path: string) => ({ url: `${target.url}/${path}` })
const callback = { callback_url: `${target.url}/callback`, callback_secret: "a secret of the benchmark" }
interface Kind {
  readonly name: string
  readonly endpoints: ReadonlyArray<object>
  /** Fields of the tasks of the other side. */
  readonly instead?: object
}
const three = [sent("one"), sent("two"), sent("three")]
const kinds: ReadonlyArray<Kind> = [
  { name: "one for other tasks", endpoints: [{ ...sent("one"), metadata: { project: "none" } }] },
  { name: "one that is read", endpoints: [{ url: null }] },
  { name: "one that is sent", endpoints: [sent("one")] },
  { name: "three that are sent", endpoints: three },
  { name: "one that is sent, beside a callback_url", endpoints: [sent("one")], instead: callback }
].filter(({ name }) => name.includes(process.env["KIND"] ?? ""))

await without.run()
await without.run(callback)
await having.only(...three)
await having.run()
for (const { sql } of [without, having]) await sql.unsafe("ANALYZE")
const found = new Map<string, Array<{ readonly ratio: number; readonly added: string; readonly rate: number }>>()
for (let round = 1; round <= rounds; round++) {
  for (const { endpoints, instead, name: kind } of kinds) {
    const base = await without.run(instead)
    await having.only(...endpoints)
    target.received.length = 0
    const made = await having.run()
    const added = {
      ratio: (made.service + made.database) / (base.service + base.database),
      added: `service ${base.service.toFixed(2)} → ${made.service.toFixed(2)} ms, Postgres ${
        base.database.toFixed(2)
      } → ${made.database.toFixed(2)} ms`,
      rate: made.rate
    }
    found.set(kind, [...found.get(kind) ?? [], added])
    console.log(`round ${round}, ${kind}: ${added.added}; ${added.rate.toFixed(0)} tasks/s`)
  }
}
for (const [kind, all] of found) {
  console.log(
    `${kind}: ${median(all.map(({ ratio }) => ratio)).toFixed(2)} of the CPU of the other side (median of ${rounds})`
  )
}
await without.service.stop()
await having.service.stop()
await having.sql.end()
await target.close()
await without.close()
