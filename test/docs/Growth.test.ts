import * as fs from "node:fs"
import { assert, describe, it } from "vitest"
import { parseAllDocuments } from "yaml"
import { connectionsOf } from "../simulation/growth.ts"

const root = new URL("../../src/", import.meta.url)
const read = (address: string) => fs.readFileSync(new URL(address, root), "utf8")

describe("kubernetes.yaml", () => {
  it("never has more nodes than Postgres has connections for, as it is delivered", () => {
    const manifests = parseAllDocuments(read("runtime/deployment/kubernetes.yaml")).map((document) => document.toJSON())
    const of = (kind: string) => manifests.find((manifest) => manifest.kind === kind)
    const surge = of("Deployment").spec.strategy.rollingUpdate.maxSurge
    const ofNode = connectionsOf(Number(of("ConfigMap").data.DATABASE_CONNECTIONS))
    assert.isAtMost((of("HorizontalPodAutoscaler").spec.maxReplicas + surge) * ofNode, 97)
  })
})
