/**
 * Webhook deliveries per second, signed and stored in Postgres, compared with bare undici sending the same bodies; and
 * the latency from event to POST, with and without targets that accept connections and never respond.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import * as path from "node:path"
import { pause } from "../kit/pause.ts"
import { complete } from "../kit/ScriptedCore.ts"
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, mint } from "../kit/Service.ts"
import { median, quantile } from "../kit/statistics.ts"
import { compare, inQuantiles, numbersOf, startBench } from "./bench.ts"

const { dead, deliveries, rounds } = numbersOf({ deliveries: 10_000, rounds: 3, dead: 500 })
const events = 600

const { close, core, sql, start } = await startBench({ WEBHOOK_ALLOW_PRIVATE: "true" })
const target = await new WebhookTarget().listen()
const service = await start()
const token = await mint("bench")

const begin = async (callbackUrl: string) => {
  const body = { callback_url: callbackUrl, callback_secret: "a secret of the benchmark" }
  const { uuid } = (await service.create(token, "x", body)).body
  return { uuid: String(uuid), run: await core.run(uuid) }
}

/** Creates one real delivery and copies it, each copy for its own task, due now or spread over some seconds. */
const original = await begin(`${target.url}/hook`)
const [{ sealed }] = await sql`
  SELECT callback_secret AS sealed FROM task_requests WHERE task_uuid = ${original.uuid}` as unknown as [
  { sealed: string }
]
await complete(original.run)
await eventually(async () => target.received, ({ length }) => length === 1)

const enqueue = async (count: number, hook: (n: string) => ReturnType<typeof sql>, spread = 0) => {
  await sql`
    WITH copies AS (
      INSERT INTO tasks SELECT (jsonb_populate_record(t, jsonb_build_object('uuid', gen_random_uuid()))).*
      FROM tasks t, generate_series(1, ${count}) WHERE t.uuid = ${original.uuid} RETURNING uuid, sub
    ), turns AS (
      INSERT INTO task_turns SELECT copies.uuid, turn FROM copies, task_turns WHERE task_uuid = ${original.uuid}
    )
    INSERT INTO webhook_deliveries (
      task_uuid, revision, status, sub, url, origin, signed, callback_secret, created_at, due_at
    )
    SELECT uuid, 1, 'completed', sub, place || '/hook', place, true, ${sealed}, now(),
      now() + random() * make_interval(secs => ${spread})
    FROM (SELECT uuid, sub, ${hook("row_number() OVER ()")} AS place FROM copies) copy`
}

const perSecond = async (count: number, start: () => Promise<unknown>) => {
  target.received.length = 0
  await start()
  const posts = await eventually(async () => target.received, ({ length }) => length >= count, 120_000)
  const rate = (count - 1) / ((posts[count - 1]!.at - posts[0]!.at) / 1000)
  return { rate, text: rate.toFixed(0) }
}

const ofOurs = () => perSecond(deliveries, () => enqueue(deliveries, () => sql`${target.url}::text`))
const body = target.received[0]!.body
const ofPeer = () =>
  perSecond(deliveries, () =>
    once(
      spawn(process.execPath, [path.join(import.meta.dirname, "webhookPeer.ts")], {
        env: { PATH: process.env["PATH"], TARGET: target.url, POSTS: String(deliveries), BODY: body },
        stdio: "inherit"
      }),
      "exit"
    ))

/** Milliseconds from the core's report to the POST. */
const latencies = async () => {
  const found: Array<number> = []
  for (let count = 0; count < events; count++) {
    const { run, uuid } = await begin(`${target.url}/hook`)
    const start = performance.now()
    const [{ at }] = await Promise.all([
      eventually(async () => target.postsOf(uuid)[0], (post) => post !== undefined, 20_000),
      complete(run)
    ]) as [{ at: number }, unknown]
    found.push(at - start)
    target.received.length = 0
  }
  return found
}
const hole = createServer((socket) => socket.on("error", () => {})).listen(0, "0.0.0.0")
await once(hole, "listening")
const holePort = (hole.address() as AddressInfo).port
/** Starts attempts to the hanging origins, spread over the timeout of 15 s, until `stopHanging`. */
const startHanging = async () => {
  await enqueue(
    dead,
    (row) =>
      sql`'http://127.0.' || (1 + (${sql.unsafe(row)} - 1) / 250) || '.' || (1 + (${sql.unsafe(row)} - 1) % 250) || ':'
      || ${String(holePort)}::text`,
    15
  )
  await pause(16_000)
}
const stopHanging = async () => {
  await sql`DELETE FROM webhook_deliveries WHERE due_at IS NOT NULL`
  await pause(16_000)
}

console.log(`Deliveries per second, ${deliveries} at a time`)
// Autovacuum would do this later. Plans that were made for empty tables would distort the figures.
await ofOurs()
await sql`VACUUM ANALYZE`
await compare("deliveries", rounds, { name: "ours", measure: ofOurs }, { name: "bare undici", measure: ofPeer })

console.log(`From event to POST, ${events} events, with and without ${dead} targets that hang`)
await latencies()
const added: Array<number> = []
for (let round = 1; round <= rounds; round++) {
  const alone = await latencies()
  await startHanging()
  const [{ hanging }] = await sql`
    SELECT count(*)::int AS hanging FROM webhook_deliveries WHERE sending` as unknown as [{ hanging: number }]
  const withHanging = await latencies()
  await stopHanging()
  console.log(`  alone: ${inQuantiles(alone)}`)
  console.log(`  with ${dead} hanging targets, ${hanging} attempts in flight: ${inQuantiles(withHanging)}`)
  added.push(quantile(withHanging, 0.99) / quantile(alone, 0.99) - 1)
}
console.log(`  median added to p99: ${(median(added) * 100).toFixed(1)} %`)

await service.stop("SIGKILL")
hole.close()
await target.close()
await close()
