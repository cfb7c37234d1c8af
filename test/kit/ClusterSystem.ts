/** A cluster of any number of nodes on one database. */
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { eventually, freePort, internalToken, Service } from "./Service.ts"
import { startSystem, type System } from "./System.ts"

export interface ClusterSystem extends System {
  /** Starts one more node and waits until it has its share of the shards. */
  readonly startNode: (more?: Readonly<Record<string, string>>) => Promise<Service>
}

/** The number of shards that a node owns, from its own metrics. */
export const shardsOf = async (node: Service): Promise<number> => {
  const { body } = await node.call("GET", "/internal/metrics", internalToken)
  const total = (direction: string) =>
    Number(
      new RegExp(`^cluster_shard_reassignments_total\\{[^}]*"${direction}"[^}]*\\} (\\d+)`, "m").exec(body)?.[1] ?? 0
    )
  return total("gained") - total("lost")
}

/** Selects the number of shards of each node, from the locks that its process holds now. The embedded Postgres locks 0. */
export const selectShardCounts = `SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory' AND objid > 0
  AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY pid`

/** Waits until these nodes, and no others, own all shards. */
export const settled = (nodes: ReadonlyArray<Service>, timeout = 20_000): Promise<ReadonlyArray<number>> =>
  eventually(
    () => Promise.all(nodes.map(shardsOf)),
    (counts) => !counts.includes(0) && counts.reduce((sum, count) => sum + count, 0) === TaskShard.count,
    timeout
  )

export const startCluster = async (more: Readonly<Record<string, string>> = {}): Promise<ClusterSystem> => {
  const system = await startSystem({ CLUSTER: "on", CLUSTER_PORT: String(await freePort()), ...more })
  await settled([system.service])
  return {
    ...system,
    startNode: async (settings = {}) => {
      const node = await Service.start({
        ...system.settings,
        CLUSTER_PORT: String(await freePort()),
        ...settings
      })
      await eventually(() => shardsOf(node), (count) => count > 0)
      return node
    }
  }
}
