/**
 * Webhook deliveries per second, signed and stored in Postgres, compared with bare undici sending the same bodies; and
 * the latency from event to POST, with and without targets that accept connections and never respond.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { type AddressInfo, createServer } from "node:net"
import * as path from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import postgres from "postgres"
import { report, ScriptedCore, turnOf } from "../kit/ScriptedCore.ts"
import { eventually, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { WebhookTarget } from "../kit/WebhookTarget.ts"

const deliveries = Number(process.argv[2] ?? 10_000)
const rounds = Number(process.argv[3] ?? 3)
const events = 600
const dead = Number(process.argv[4] ?? 500)

const database = await startPostgres()
const url = await database.makeDatabase("webhooks")
const core = await new ScriptedCore().listen()
const target = await new WebhookTarget().listen()
const sql = postgres(url, { max: 1 })
const service = await Service.start({
  DATABASE_URL: url,
  CORE_URL: core.url,
  MAX_ACTIVE_TASKS: "1000000",
  ACCEPTANCE_TIMEOUT: "1 hour",
  WEBHOOK_ALLOW_PRIVATE: "true"
})
const token = await mint("bench")

const begin = async (callbackUrl: string) => {
  const body = { callback_url: callbackUrl, callback_secret: "a secret of the benchmark" }
  const { uuid } = (await service.create(token, "x", body)).body
  const run = await eventually(async () => core.runOf(uuid), (found) => found !== undefined)
  return { uuid: String(uuid), run: run! }
}
const end = (run: Parameters<typeof report>[0]) => report(run, { type: "completed", turn: turnOf("42") })

/** Creates one real delivery and copies it, each copy for its own task, due now or spread over some seconds. */
const original = await begin(`${target.origin}/hook`)
const [{ sealed }] = await sql`
  SELECT callback_secret AS sealed FROM task_requests WHERE task_uuid = ${original.uuid}` as unknown as [
  { sealed: string }
]
await end(original.run)
await eventually(async () => target.posts, ({ length }) => length === 1)

const enqueue = async (count: number, hook: (n: string) => ReturnType<typeof sql>, spread = 0) => {
  await sql`
    WITH copies AS (
      INSERT INTO tasks SELECT (jsonb_populate_record(t, jsonb_build_object('uuid', gen_random_uuid()))).*
      FROM tasks t, generate_series(1, ${count}) WHERE t.uuid = ${original.uuid} RETURNING uuid
    ), turns AS (
      INSERT INTO task_turns SELECT copies.uuid, turn FROM copies, task_turns WHERE task_uuid = ${original.uuid}
    )
    INSERT INTO webhook_deliveries (task_uuid, revision, status, url, origin, signed, callback_secret, created_at, due_at)
    SELECT uuid, 1, 'completed', place || '/hook', place, true, ${sealed}, now(), now() + random() * make_interval(secs => ${spread})
    FROM (SELECT uuid, ${hook("row_number() OVER ()")} AS place FROM copies) copy`
}

const perSecond = async (count: number, start: () => Promise<unknown>) => {
  target.posts.length = 0
  await start()
  const posts = await eventually(async () => target.posts, ({ length }) => length >= count, 120_000)
  return (count - 1) / ((posts[count - 1]!.at - posts[0]!.at) / 1000)
}

const ofOurs = () => perSecond(deliveries, () => enqueue(deliveries, () => sql`${target.origin}::text`))
const body = target.posts[0]!.body
const ofPeer = () =>
  perSecond(deliveries, () =>
    once(
      spawn(process.execPath, [path.join(import.meta.dirname, "webhookPeer.ts")], {
        env: { PATH: process.env["PATH"], TARGET: target.origin, POSTS: String(deliveries), BODY: body },
        stdio: "inherit"
      }),
      "exit"
    ))

/** Milliseconds from the core's report to the POST, sorted. */
const latencies = async () => {
  const found: Array<number> = []
  for (let count = 0; count < events; count++) {
    const { run, uuid } = await begin(`${target.origin}/hook`)
    const start = performance.now()
    const [{ at }] = await Promise.all([
      eventually(async () => target.postsOf(uuid)[0], (post) => post !== undefined, 20_000),
      end(run)
    ]) as [{ at: number }, unknown]
    found.push(at - start)
    target.posts.length = 0
  }
  return found.toSorted((a, b) => a - b)
}
const quantile = (sorted: ReadonlyArray<number>, share: number) => sorted[Math.floor(sorted.length * share)] ?? 0
const median = (values: ReadonlyArray<number>) => quantile(values.toSorted((a, b) => a - b), 0.5)

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

const line = (name: string, sorted: ReadonlyArray<number>) =>
  console.log(`  ${name}: p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p99 ${quantile(sorted, 0.99).toFixed(1)} ms`)

console.log(`Deliveries per second, ${deliveries} at a time`)
// Autovacuum would do this later. Plans that were made for empty tables would distort the figures.
await ofOurs()
await sql`VACUUM ANALYZE`
const ratios: Array<number> = []
for (let round = 1; round <= rounds; round++) {
  const ours = await ofOurs()
  const peer = await ofPeer()
  ratios.push(ours / peer)
  console.log(`  round ${round}: ours ${ours.toFixed(0)}, bare undici ${peer.toFixed(0)}: ${(ours / peer).toFixed(2)}`)
}
console.log(`  median ratio ${median(ratios).toFixed(2)}`)

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
  line("alone", alone)
  line(`with ${dead} hanging targets, ${hanging} attempts in flight`, withHanging)
  added.push(quantile(withHanging, 0.99) / quantile(alone, 0.99) - 1)
}
console.log(`  median added to p99: ${(median(added) * 100).toFixed(1)} %`)

await sql.end()
await service.stop("SIGKILL")
hole.close()
await core.close()
await target.close()
await database.stop()
process.exit()
