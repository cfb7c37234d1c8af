import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { parseAllDocuments } from "yaml"
import { cluster, connectionsOf } from "../simulation/growth.ts"

const root = new URL("../../src/", import.meta.url)
const read = (address: string) => fs.readFileSync(new URL(address, root), "utf8")

describe("the simulation of growth", () => {
  it("uses the settings of the cluster", () => {
    const source = read("runtime/cluster/Cluster.ts")
    assert.include(source, "minLease = Duration.seconds(4)")
    assert.include(source, "shardLockRefreshInterval: Duration.divideUnsafe(lease, 4)")
    assert.include(source, `refreshAssignmentsInterval: Duration.millis(${cluster.poll * 1000})`)
    assert.include(source, `pingInterval = Duration.millis(${cluster.ping * 1000})`)
    assert.include(source, `pingSpacing = Duration.millis(${cluster.pingSpacing * 1000})`)
    assert.include(
      read("services/store/NotificationRelay.ts"),
      `announceInterval = Duration.seconds(${cluster.announcement})`
    )
    assert.include(read("runtime/App.ts"), `Cluster.layer(cluster, `)
    assert.include(read("runtime/App.ts"), `Database.limited(direct), maxConnections: ${cluster.connections} }`)
  })
})

describe("kubernetes.yaml", () => {
  it("never has more nodes than Postgres has connections for, as it is delivered", () => {
    const manifests = parseAllDocuments(read("runtime/deployment/kubernetes.yaml")).map((document) => document.toJSON())
    const of = (kind: string) => manifests.find((manifest) => manifest.kind === kind)
    const surge = of("Deployment").spec.strategy.rollingUpdate.maxSurge
    const ofNode = connectionsOf(Number(of("ConfigMap").data.DATABASE_CONNECTIONS))
    assert.isAtMost((of("HorizontalPodAutoscaler").spec.maxReplicas + surge) * ofNode, 97)
  })
})
