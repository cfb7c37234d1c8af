/** A job queue behind the smallest HTTP server: `POST` returns the id of a new job, `GET` its state. Jobs do nothing. */
import { Queue, Worker } from "bullmq"
import { Logger, makeWorkerUtils, run } from "graphile-worker"
import { Redis } from "ioredis"
import { createServer } from "node:http"
import { Pool } from "pg"
import { PgBoss } from "pg-boss"

interface JobQueue {
  readonly create: () => Promise<string>
  readonly isCompleted: (id: string) => Promise<boolean>
}

const connectionString = String(process.env["DATABASE_URL"])

const graphileWorker = async (): Promise<JobQueue> => {
  const pool = new Pool({ connectionString, max: 10 })
  // By default it logs each job.
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  await run({
    pgPool: pool,
    logger,
    concurrency: 24,
    noHandleSignals: true,
    taskList: { noop: () => {} },
    preset: { worker: { localQueue: { size: 100 }, completeJobBatchDelay: 0 } }
  })
  return {
    create: async () => (await utils.addJob("noop", {})).id,
    // A job that has completed is deleted.
    isCompleted: async (id) =>
      (await pool.query({
        name: "state",
        text: "SELECT 1 FROM graphile_worker._private_jobs WHERE id = $1",
        values: [id]
      }))
        .rowCount === 0
  }
}

const pgBoss = async (): Promise<JobQueue> => {
  const boss = new PgBoss({ connectionString, max: 10 })
  boss.on("error", console.error)
  await boss.start()
  await boss.createQueue("noop")
  await boss.work("noop", { batchSize: 1000, pollingIntervalSeconds: 0.5 }, async () => {})
  return {
    create: async () => String(await boss.send("noop", {})),
    isCompleted: async (id) => (await boss.getJobById("noop", id))?.state === "completed"
  }
}

const bullMq = async (): Promise<JobQueue> => {
  const connect = () => new Redis(String(process.env["REDIS_URL"]), { maxRetriesPerRequest: null })
  const connection = connect()
  const queue = new Queue("noop", { connection, defaultJobOptions: { removeOnComplete: true } })
  const worker = new Worker("noop", async () => {}, { connection: connect(), concurrency: 100 })
  await worker.waitUntilReady()
  return {
    create: async () => String((await queue.add("noop", {})).id),
    // A job that has completed is deleted.
    isCompleted: async (id) => await connection.exists(queue.toKey(id)) === 0
  }
}

const queues: Readonly<Record<string, () => Promise<JobQueue>>> = {
  "graphile-worker": graphileWorker,
  "pg-boss": pgBoss,
  "BullMQ": bullMq
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
  return answer({ status: await queue.isCompleted(id) ? "completed" : "pending" })
}).listen(Number(process.env["PORT"]), "127.0.0.1")
