/** pg-boss and graphile-worker as adapters of the harness (`adapter.ts`): `PEER` names one. They work in this process, without a server. */
import { Logger, makeWorkerUtils, run as runWorker } from "graphile-worker"
import { Pool } from "pg"
import { PgBoss } from "pg-boss"
import { end, run, settings, type System, work } from "./adapter.ts"

interface Job {
  readonly enqueuedAt: number
}

const job = () => ({ enqueuedAt: Date.now(), payload: settings.payload })
const jobs = (count: number) => Array.from({ length: count }, job)

const pgBoss = async (): Promise<System> => {
  const boss = new PgBoss({ connectionString: settings.databaseUrl, max: 20 })
  boss.on("error", (error) => console.error(String(error)))
  await boss.start()
  await boss.createQueue("bench", { partition: true })
  const table = `pgboss.${(await boss.getQueue("bench"))!.table}`
  await boss.work<Job>(
    "bench",
    { batchSize: 8, localConcurrency: settings.workers, pollingIntervalSeconds: 0.5 },
    async (taken) => {
      for (const { data } of taken) {
        await work(data.enqueuedAt)
        end(data.enqueuedAt)
      }
    }
  )
  return {
    manifest: { system: "pgboss", event_tables: ["pgboss.queue", table] },
    version: "pg-boss",
    enqueue: async (count) => void await boss.insert("bench", jobs(count).map((data) => ({ data }))),
    depths: async () => {
      const { rows } = await boss.getDb().executeSql(
        `SELECT count(*) FILTER (WHERE state < 'active')::int AS queued, count(*)::int AS all
         FROM ${table} WHERE state < 'completed'`,
        []
      )
      return rows[0]
    },
    stop: () => boss.stop({ graceful: false })
  }
}

const graphileWorker = async (): Promise<System> => {
  const pool = new Pool({ connectionString: settings.databaseUrl, max: 20 })
  pool.on("error", (error) => console.error(String(error)))
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  const runner = await runWorker({
    pgPool: pool,
    logger,
    concurrency: settings.workers,
    noHandleSignals: true,
    taskList: {
      bench: async (payload) => {
        const { enqueuedAt } = payload as Job
        await work(enqueuedAt)
        end(enqueuedAt)
      }
    },
    preset: { worker: { localQueue: { size: 100 }, completeJobBatchDelay: 0 } }
  })
  // A worker that gives up ends its process, which is started again.
  void runner.promise.catch(String).then((reason) => {
    console.error(reason)
    process.exit(1)
  })
  return {
    manifest: { system: "graphile-worker", event_tables: ["graphile_worker._private_jobs"] },
    version: "graphile-worker",
    enqueue: async (count) =>
      void await utils.addJobs(jobs(count).map((payload) => ({ identifier: "bench", payload }))),
    depths: async () => {
      const { rows } = await pool.query(
        `SELECT count(*) FILTER (WHERE locked_at IS NULL)::int AS queued, count(*)::int AS all
         FROM graphile_worker._private_jobs`
      )
      return rows[0]
    },
    stop: async () => {
      await runner.stop()
      await pool.end()
    }
  }
}

await run(process.env["PEER"] === "graphile-worker" ? graphileWorker : pgBoss)
