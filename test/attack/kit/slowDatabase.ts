/** Creates over a slow link to the database. */
import { Proxy } from "../../chaos/Proxy.ts"
import { settled } from "../../kit/ClusterSystem.ts"
import { pause } from "../../kit/pause.ts"
import { ScriptedCore } from "../../kit/ScriptedCore.ts"
import { freePort, mint, Service } from "../../kit/Service.ts"
import { startCallers } from "./Callers.ts"

export interface SlowDatabase {
  /** Milliseconds of a round trip. */
  readonly roundTrip?: number
  /** Milliseconds that the server takes for a login. */
  readonly login?: number
  /** In each direction. */
  readonly bytesPerSecond?: number
  /** Milliseconds of creates. */
  readonly duration: number
  /** Of each node. */
  readonly callers: number
  /** Nodes of a cluster; one node without a cluster by default. */
  readonly nodes?: number
  /** Whether a single node is one of a cluster. */
  readonly isClustered?: boolean
  /** Bytes of each request. */
  readonly bodyBytes?: number
}

export interface SlowReport {
  /** Milliseconds from the start of the first process to `/readyz` with 200. */
  readonly startedIn: number
  /** The number of creates by status. */
  readonly creates: Readonly<Record<number, number>>
  /** The number of answers of the first node's `/readyz` by status. */
  readonly readiness: Readonly<Record<number, number>>
}

/** Milliseconds. */
const startTimeout = 120_000

const countByStatus = (calls: ReadonlyArray<{ readonly status: number }>) => {
  const counts: Record<number, number> = {}
  for (const { status } of calls) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

/** `databaseUrl` is the URL of an empty database. */
export const measureSlowDatabase = async (databaseUrl: string, options: SlowDatabase): Promise<SlowReport> => {
  const { bodyBytes = 100, bytesPerSecond = Infinity, callers, duration, login = 0, nodes = 1, roundTrip = 0 } = options
  const { isClustered = nodes > 1 } = options
  const proxy = await Proxy.before(databaseUrl)
  Object.assign(proxy.link, { latency: roundTrip / 2, bytesPerSecond, login })
  const core = await new ScriptedCore().listen()
  const startedAt = performance.now()
  try {
    const settings = { DATABASE_URL: proxy.urlOf(databaseUrl), CORE_URL: core.url, MAX_ACTIVE_TASKS: "1000000" }
    const startNode = async () => {
      const ofCluster = !isClustered ? {} : { CLUSTER: "on", CLUSTER_PORT: String(await freePort()) }
      return Service.start({ ...settings, ...ofCluster }, undefined, undefined, undefined, startTimeout)
    }
    const service = await startNode()
    const startedIn = performance.now() - startedAt
    const services = [service]
    try {
      while (services.length < nodes) services.push(await startNode())
      if (isClustered) await settled(services, startTimeout)
      const tokens = await Promise.all(Array.from({ length: nodes * callers }, (_, caller) => mint(`u${caller}`)))
      const body = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "x".repeat(bodyBytes) }] })
      const create = { method: "POST", path: "/api/tasks", body }
      const creators = services.map(({ url }, node) =>
        startCallers(url, callers, (caller) => tokens[node * callers + caller]!, () => create, 10)
      )
      const ready = startCallers(service.url, 1, () => "", () => ({ method: "GET", path: "/readyz" }), 100)
      await pause(duration)
      const created = await Promise.all(creators.map((callers) => callers.stop()))
      return { startedIn, creates: countByStatus(created.flat()), readiness: countByStatus(await ready.stop()) }
    } finally {
      await Promise.all(services.map((node) => node.stop()))
    }
  } finally {
    await core.close()
    await proxy.close()
  }
}
