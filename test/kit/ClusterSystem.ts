/** A cluster of any number of nodes on one database, with the nodes' view of each other. */
import { useRpc } from "./callRpc.ts"
import { eventually, freePort, Service } from "./Service.ts"
import { startSystem, type System } from "./System.ts"

export interface ClusterSystem extends System {
  /** Starts one more node and waits until it has its share of the shards. */
  readonly startNode: (more?: Readonly<Record<string, string>>) => Promise<Service>
}

/** Calls a node by RPC. */
export const operate = (
  node: Service,
  operation: "Operations.cluster" | "Operations.drain" | "Operations.rebalance"
) => useRpc(node, (client) => client[operation]())

/** Selects the number of shards of each node, from the locks that its process holds now. The embedded Postgres locks 0. */
export const selectShardCounts = `SELECT count(*)::int AS count FROM pg_locks WHERE locktype = 'advisory' AND objid > 0
  AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY pid`

type Cluster = Awaited<ReturnType<typeof operate>>

/** Waits until all shards are owned by exactly `owners` nodes. */
export const settled = (node: Service, owners: number, timeout = 20_000): Promise<Cluster> =>
  eventually(
    () => operate(node, "Operations.cluster"),
    ({ members, unowned }) =>
      unowned.length === 0 && members.filter(({ shards }) => (shards ?? []).length > 0).length === owners
      && members.flatMap(({ shards }) => shards ?? []).length === 60,
    timeout
  )

export const startCluster = async (more: Readonly<Record<string, string>> = {}): Promise<ClusterSystem> => {
  const system = await startSystem({ CLUSTER: "on", CLUSTER_PORT: String(await freePort()), ...more })
  await settled(system.service, 1)
  const isOwner = async (node: Service) =>
    (await operate(node, "Operations.cluster")).members.some(({ is_self, shards }) => is_self && shards!.length > 0)
  return {
    ...system,
    startNode: async (settings = {}) => {
      const node = await Service.start({
        ...system.settings,
        CLUSTER_PORT: String(await freePort()),
        ...settings
      })
      await eventually(() => isOwner(node), (owner) => owner)
      return node
    }
  }
}
