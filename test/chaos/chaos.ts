/** Faults against one node on a real Postgres under load, and what clients, core and rows tell of it afterwards. */
import postgres from "postgres"
import { eventually, freePort, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { Load } from "./Load.ts"
import { Proxy } from "./Proxy.ts"

export const faults = ["kill", "term", "freeze", "database", "cut", "stall", "lost-replies"] as const
export type Fault = typeof faults[number]

export interface Report {
  readonly fault: Fault
  readonly rounds: number
  readonly acknowledged: number
  readonly lost: number
  readonly twiceTerminal: number
  readonly stuck: number
  readonly overLimit: number
  /** Seconds from a fault to the first create that was answered after it, the worst of all rounds. */
  readonly worstRecovery: number
}

const pause = (millis: number) => new Promise((resolve) => setTimeout(resolve, millis))

export const run = async (
  fault: Fault,
  rounds: number,
  tell: (round: number, seconds: number) => void = () => {}
): Promise<Report> => {
  const database = await startPostgres()
  const proxy = await new Proxy(database).listen()
  const viaProxy = new URL(database.url)
  viaProxy.port = String(proxy.port)
  const port = await freePort()
  const load = new Load(`http://127.0.0.1:${port}`)
  await load.core.listen()
  const settings = { DATABASE_URL: viaProxy.href, CORE_URL: load.core.url }
  let service = await Service.start(settings, port)
  const sql = postgres(database.url, { max: 1 })
  const living = load.live(20)

  const inflict: Readonly<Record<Fault, () => Promise<void>>> = {
    kill: async () => {
      await service.stop("SIGKILL")
      service = await Service.start(settings, port)
    },
    term: async () => {
      await service.stop("SIGTERM")
      service = await Service.start(settings, port)
    },
    freeze: async () => {
      service.signal("SIGSTOP")
      await pause(2000 + Math.random() * 2000)
      service.signal("SIGCONT")
    },
    database: database.restartImmediately,
    cut: async () => proxy.cut(),
    stall: async () => proxy.silence(),
    "lost-replies": async () => {
      proxy.weather = "losing replies"
      await pause(200)
      proxy.weather = "fair"
    }
  }

  let worstRecovery = 0
  let overLimit = 0
  for (let round = 1; round <= rounds; round++) {
    await pause(300 + Math.random() * 1200)
    const faultAt = performance.now()
    await inflict[fault]()
    const answeredBefore = load.lastAnswer
    await eventually(async () => load.lastAnswer, (at) => at > answeredBefore, 60_000)
    const recovery = (load.lastAnswer - faultAt) / 1000
    worstRecovery = Math.max(worstRecovery, recovery)
    const [over] = await eventually(
      () =>
        sql`SELECT count(*)::int AS users FROM (
          SELECT FROM tasks WHERE completed_at IS NULL GROUP BY sub HAVING count(*) > 5
        ) over_limit`.catch(() => []),
      (rows) => rows.length === 1
    )
    overLimit += (over as { readonly users: number }).users
    tell(round, recovery)
  }

  load.finish()
  await living
  const uuids = [...load.acknowledged.keys()]
  const [stuck] = await eventually(
    () => sql`SELECT count(*)::int AS stuck FROM tasks WHERE completed_at IS NULL`,
    ([row]) => row?.["stuck"] === 0,
    60_000
  ).catch(() => sql`SELECT count(*)::int AS stuck FROM tasks WHERE completed_at IS NULL`)
  const found = new Set((await sql`SELECT uuid FROM tasks`).map(({ uuid }) => uuid))
  const twice = await sql`SELECT task_uuid FROM task_events
    WHERE status IN ('completed', 'failed', 'canceled') GROUP BY task_uuid HAVING count(*) > 1`
  await sql.end()
  await service.stop()
  await load.core.close()
  await proxy.close()
  await database.stop()
  return {
    fault,
    rounds,
    acknowledged: uuids.length,
    lost: uuids.filter((uuid) => !found.has(uuid)).length,
    twiceTerminal: new Set([...load.twiceTerminal, ...twice.map(({ task_uuid }) => task_uuid)]).size,
    stuck: stuck?.["stuck"],
    overLimit,
    worstRecovery
  }
}
