/**
 * A job queue behind the smallest HTTP server: `POST` returns the id of a new job, `GET` its state. A job does nothing, or has a result of
 * `RESULT` bytes, which `GET` returns.
 */
import { DBOS } from "@dbos-inc/dbos-sdk"
import { Queue, Worker } from "bullmq"
import { Logger, makeWorkerUtils, run } from "graphile-worker"
import { Redis } from "ioredis"
import { createServer } from "node:http"
import { Pool } from "pg"
import { PgBoss } from "pg-boss"

interface JobQueue {
  readonly create: () => Promise<string>
  /** The result of a job that has completed, undefined before. */
  readonly read: (id: string) => Promise<string | undefined>
}

const connectionString = String(process.env["DATABASE_URL"])
const result = "x".repeat(Number(process.env["RESULT"] ?? 0))

/** It keeps no results, so a job writes its own into a table. */
const graphileWorker = async (): Promise<JobQueue> => {
  const pool = new Pool({ connectionString, max: 10 })
  // By default it logs each job.
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  await pool.query("CREATE TABLE IF NOT EXISTS results (id text PRIMARY KEY, result text)")
  await run({
    pgPool: pool,
    logger,
    concurrency: 24,
    noHandleSignals: true,
    taskList: {
      job: async (_, { job, query }) => {
        if (result !== "") await query("INSERT INTO results VALUES ($1, $2)", [job.id, result])
      }
    },
    preset: { worker: { localQueue: { size: 100 }, completeJobBatchDelay: 0 } }
  })
  return {
    create: async () => (await utils.addJob("job", {})).id,
    read: async (id) => {
      const text = "SELECT 1 FROM graphile_worker._private_jobs WHERE id = $1"
      const { rowCount } = await pool.query({ name: "state", text, values: [id] })
      // A job that has completed is deleted.
      if (rowCount !== 0) return undefined
      if (result === "") return ""
      return (await pool.query("SELECT result FROM results WHERE id = $1", [id])).rows[0].result
    }
  }
}

const pgBoss = async (): Promise<JobQueue> => {
  const boss = new PgBoss({ connectionString, max: 10 })
  boss.on("error", console.error)
  await boss.start()
  await boss.createQueue("jobs")
  const batchSize = result === "" ? 1000 : 1
  await boss.work(
    "jobs",
    { batchSize, pollingIntervalSeconds: 0.5 },
    async () => result === "" ? undefined : { result }
  )
  return {
    create: async () => String(await boss.send("jobs", {})),
    read: async (id) => {
      const job = await boss.getJobById("jobs", id)
      return job?.state === "completed" ? result && (job.output as { readonly result: string }).result : undefined
    }
  }
}

const dbos = async (): Promise<JobQueue> => {
  DBOS.setConfig({ name: "peer", systemDatabaseUrl: connectionString, systemDatabasePoolSize: 10, logLevel: "error" })
  const job = DBOS.registerWorkflow(async () => result, { name: "job" })
  await DBOS.launch()
  return {
    create: async () => (await DBOS.startWorkflow(job)()).workflowID,
    read: async (id) => {
      const found = await DBOS.getWorkflowStatus(id)
      return found?.status === "SUCCESS" ? found.output as string : undefined
    }
  }
}

const bullMq = async (): Promise<JobQueue> => {
  const connect = () => new Redis(String(process.env["REDIS_URL"]), { maxRetriesPerRequest: null })
  const connection = connect()
  const queue = new Queue("jobs", { connection, defaultJobOptions: { removeOnComplete: result === "" } })
  const worker = new Worker("jobs", async () => result, { connection: connect(), concurrency: 100 })
  await worker.waitUntilReady()
  return {
    create: async () => String((await queue.add("job", {})).id),
    read: async (id) => {
      // Without a result a job that has completed is deleted.
      if (result === "") return await connection.exists(queue.toKey(id)) === 0 ? "" : undefined
      return (await queue.getJob(id))?.returnvalue
    }
  }
}

const queues: Readonly<Record<string, () => Promise<JobQueue>>> = {
  "graphile-worker": graphileWorker,
  "pg-boss": pgBoss,
  DBOS: dbos,
  BullMQ: bullMq
}
const queue = await queues[String(process.env["QUEUE"])]!()

// Connections outlive the load of 20 tasks a second, during which most of them are idle.
createServer({ keepAliveTimeout: 60_000 }, async (request, response) => {
  const answer = (body: object) => response.setHeader("content-type", "application/json").end(JSON.stringify(body))
  if (request.method === "POST") {
    let body = ""
    for await (const chunk of request) body += chunk
    JSON.parse(body)
    return answer({ uuid: await queue.create(), status: "pending" })
  }
  const id = request.url?.split("/")[3]
  if (id === undefined) return answer({})
  const found = await queue.read(id)
  return answer(found === undefined ? { status: "pending" } : { status: "completed", result: found })
}).listen(Number(process.env["PORT"]), "127.0.0.1")
