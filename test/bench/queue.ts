/**
 * The queue: what a limit costs that is never reached, and one that is; a free place; a large backlog; and the peers that have a limit. The
 * core answers in this process, so the figures are those of service, database and core on one machine: 64 places with runs of 20 ms could
 * do 3,200 runs a second, and the rate without a limit says what the machine can do.
 */
import { Logger, makeWorkerUtils, run as runGraphile } from "graphile-worker"
import { readFileSync } from "node:fs"
import { PgBoss } from "pg-boss"
import { positions } from "../../src/services/store/queue/RunQueueSql.ts"
import { BusyCore } from "../kit/BusyCore.ts"
import { settled } from "../kit/ClusterSystem.ts"
import { pause } from "../kit/pause.ts"
import { eventually, freePort, internalToken, mint, Service } from "../kit/Service.ts"
import { median } from "../kit/statistics.ts"
import { inQuantiles, numbersOf, repeat, startBench } from "./bench.ts"

const { backlog, rounds, tasks, waiting } = numbersOf({ tasks: 2000, waiting: 5000, backlog: 100_000, rounds: 3 })
const only = process.env["ONLY"]
const bench = await startBench()
const { sql } = bench
const user = await mint("bench")
const takes = 20
const places = 64

const empty = () => sql`TRUNCATE tasks, task_requests, task_events, task_turns, waiting_runs, assistant_limits CASCADE`
const ended = () =>
  eventually(
    async () => Number((await sql`SELECT count(*) FROM tasks WHERE completed_at IS NULL`)[0]!["count"]),
    (live) => live === 0,
    120_000,
    50
  )

/** Runs `body` with a service and a core whose runs take so many milliseconds. */
const withService = async <A>(
  takes: number,
  settings: Readonly<Record<string, string>>,
  body: (service: Service, core: BusyCore) => Promise<A>
) => {
  const core = await new BusyCore(Infinity, takes).listen() as BusyCore
  const service = await Service.start({ ...bench.settings, CORE_URL: core.url, ...settings })
  try {
    return await body(service, core)
  } finally {
    await service.stop()
    await core.close()
    await empty()
  }
}

const createAll = async (services: ReadonlyArray<Service>, count: number, clients: number) => {
  let left = count
  const create = async (_: unknown, client: number): Promise<void> => {
    while (left-- > 0) await services[client % services.length]!.create(user, "x")
  }
  await Promise.all(Array.from({ length: clients }, create))
}

/** Tasks a second from the first create to the last end. */
const created = (settings: Readonly<Record<string, string>>) =>
  withService(0, settings, async (service) => {
    const begun = performance.now()
    await createAll([service], tasks, 32)
    await ended()
    return tasks / (performance.now() - begun) * 1000
  })

/** Tasks a second when as many as wait may go. */
const drained = (settings: Readonly<Record<string, string>>) =>
  withService(takes, settings, async (service, core) => {
    const path = "/internal/operator/queue/assistants/1"
    await service.call("PUT", path, internalToken, { paused: true })
    await createAll([service], waiting, 64)
    const begun = performance.now()
    await service.call("PUT", path, internalToken, { paused: false })
    await ended()
    return { rate: waiting / (performance.now() - begun) * 1000, most: core.most }
  })

const row = async (name: string, measure: () => Promise<void>) => {
  if (only === undefined || only === name) await measure()
}

await row("unreached", async () => {
  const ratios: Array<number> = []
  for (let round = 1; round <= rounds; round++) {
    const [free, limited] = [await created({}), await created({ CORE_RUNS: "256" })]
    ratios.push(limited / free)
    console.log(`${Math.round(free)} tasks/s without a limit, ${Math.round(limited)} with CORE_RUNS=256`)
  }
  console.log(`with CORE_RUNS=256: ${median(ratios).toFixed(2)} of without (median of ${rounds})`)
})

await row("reached", async () => {
  const ratios: Array<number> = []
  for (let round = 1; round <= rounds; round++) {
    const [free, full] = [await drained({}), await drained({ CORE_RUNS: String(places) })]
    ratios.push(full.rate / free.rate)
    const rates = `${
      Math.round(free.rate)
    } tasks/s of ${waiting} waiting without a limit (${free.most} at a time at most)`
    console.log(`${rates}, ${Math.round(full.rate)} in ${places} places (${full.most})`)
  }
  console.log(`with ${waiting} waiting for ${places} places: ${median(ratios).toFixed(2)} of without a limit`)
})

await row("free", async () => {
  const measure = async (title: string, services: ReadonlyArray<Service>, core: BusyCore) => {
    await createAll(services, 400, 16)
    await ended()
    console.log(`a free place is used, ${title}: ${inQuantiles(core.freeTimes(4))}, ${core.most} runs at most`)
  }
  await withService(100, { CORE_RUNS: "4" }, (service, core) => measure("one node", [service], core))
  const port = await freePort()
  // All ends are reported to the first node.
  const settings = { CORE_RUNS: "4", CLUSTER: "on", PUBLIC_URL: `http://127.0.0.1:${port}` }
  const node = async (core: BusyCore, port?: number) =>
    Service.start({ ...bench.settings, CORE_URL: core.url, ...settings, CLUSTER_PORT: String(await freePort()) }, port)
  const core = await new BusyCore(Infinity, 100).listen() as BusyCore
  const nodes = [await node(core, port), await node(core)]
  await settled(nodes)
  await measure("two nodes", nodes, core)
  await Promise.all(nodes.map((node) => node.stop()))
  await core.close()
  await empty()
})

await row("backlog", async () => {
  const core = await new BusyCore(0, 0).listen() as BusyCore
  const start = async () => {
    const begun = performance.now()
    const service = await Service.start({ ...bench.settings, CORE_URL: core.url, CORE_RUNS: "1" })
    const seconds = (performance.now() - begun) / 1000
    const status = readFileSync(`/proc/${service.process.pid}/status`, "utf8")
    await service.stop()
    return { seconds, memory: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024 }
  }
  const before = await start()
  await sql`WITH made AS (
      INSERT INTO tasks (uuid, sub, run_id, max_execution_time, created_at, deadline_at, token_id, assistant_id, room)
      SELECT gen_random_uuid(), 'user ' || n % 20000, gen_random_uuid(), 86400, now() + n * interval '1 microsecond', now() + interval '1 day',
        'token', n % 10, CASE n WHEN 0 THEN 'held' ELSE 'waiting' END FROM generate_series(0, ${backlog}::int) AS n RETURNING *
    ), requests AS (
      INSERT INTO task_requests (task_uuid, request, user_token) SELECT uuid, '{}', '' FROM made
    )
    INSERT INTO waiting_runs (task_uuid, assistant_id, sub, class, ticket, since)
    SELECT uuid, assistant_id, sub, 5, row_number() OVER (PARTITION BY sub ORDER BY created_at), created_at FROM made WHERE room = 'waiting'`
  const after = await start()
  console.log(
    `${backlog} waiting: start in ${after.seconds.toFixed(1)} s, ${before.seconds.toFixed(1)} s without; ${
      Math.round((after.memory - before.memory) / backlog)
    } bytes of memory each`
  )
  const [middle] = await sql`SELECT task_uuid AS uuid FROM waiting_runs ORDER BY class, ticket, since OFFSET ${
    Math.floor(backlog / 2)
  }::int LIMIT 1`
  const zeros = `{${Array.from({ length: 11 }, () => 0).join()}}`
  const epochs = `{${Array.from({ length: 11 }, () => "epoch").join()}}`
  const calls = (statement: () => Promise<unknown>) => repeat(1, (done) => done >= 500, statement)
  const admitting = await calls(() =>
    sql`SELECT * FROM admit_runs(now(), 1, 1000, NULL, NULL, ${zeros}::bigint[], ${epochs}::timestamptz[])`
  )
  console.log(`an admission: ${inQuantiles(admitting)}, at most ${Math.max(...admitting).toFixed(1)} ms`)
  const place = await calls(() => sql.unsafe(positions.text, [[middle!["uuid"]]]))
  console.log(`a position: ${inQuantiles(place)}, at most ${Math.max(...place).toFixed(1)} ms`)
  await core.close()
  await empty()
})

await row("peers", async () => {
  /** Jobs a second that take as long as the runs, from the first to the last of those that wait. */
  const rateOf = (begin: (work: () => Promise<void>) => Promise<() => Promise<unknown>>) =>
    new Promise<number>((resolve) => {
      let [done, begun] = [0, 0]
      const stop = begin(async () => {
        if (begun === 0) begun = performance.now()
        await pause(takes)
        if (++done === waiting) {
          const rate = waiting / (performance.now() - begun) * 1000
          void stop.then((stop) => stop()).then(() => resolve(rate))
        }
      })
    })
  const connectionString = bench.database.url
  const pgBoss = (groupConcurrency?: number) =>
    rateOf(async (work) => {
      const boss = new PgBoss({ connectionString, max: 10 })
      boss.on("error", console.error)
      await boss.start()
      await boss.createQueue("runs")
      await boss.insert("runs", Array.from({ length: waiting }, () => ({ group: { id: "core" } })))
      await boss.work("runs", {
        localConcurrency: groupConcurrency === undefined ? 256 : places,
        pollingIntervalSeconds: 0.5,
        burstWhenBatchFull: true,
        ...(groupConcurrency === undefined ? {} : { groupConcurrency })
      }, work)
      return () => boss.stop({ graceful: true })
    })
  const graphile = (concurrency: number) =>
    rateOf(async (work) => {
      const logger = new Logger(() => () => {})
      const utils = await makeWorkerUtils({ connectionString, logger })
      await utils.migrate()
      await utils.addJobs(Array.from({ length: waiting }, () => ({ identifier: "run", payload: {} })))
      await utils.release()
      const runner = await runGraphile({
        connectionString,
        logger,
        concurrency,
        noHandleSignals: true,
        taskList: { run: work }
      })
      return () => runner.stop()
    })
  const peers = {
    [`pg-boss, groupConcurrency ${places}`]: [() => pgBoss(), () => pgBoss(places)],
    [`graphile-worker, a pool of ${places}`]: [() => graphile(256), () => graphile(places)]
  } as const
  for (const [name, [free, limited]] of Object.entries(peers)) {
    const rates: Array<readonly [number, number]> = []
    for (let round = 1; round <= rounds; round++) rates.push([await free(), await limited()])
    console.log(
      `${name}: ${Math.round(median(rates.map(([, limited]) => limited)))} jobs/s, ${
        median(rates.map(([free, limited]) => limited / free)).toFixed(2)
      } of without a limit (256 at a time)`
    )
  }
})
await bench.close()
