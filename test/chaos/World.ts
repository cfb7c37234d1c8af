/** The environment of a cell: nodes on one Postgres behind one address, with clients, core and webhook target. */
import { freePort } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"
import { Balancer } from "./Balancer.ts"
import { Clients } from "./Clients.ts"
import { Core } from "./Core.ts"
import { Node } from "./Node.ts"
import { Recorder } from "./Recorder.ts"
import { Rows } from "./Rows.ts"
import { Target } from "./Target.ts"

export interface World {
  readonly nodes: ReadonlyArray<Node>
  readonly database: Awaited<ReturnType<typeof startPostgres>>
  readonly core: Core
  readonly target: Target
  readonly clients: Clients
  readonly rows: Rows
  /** Whether every node is alive and ready. */
  readonly areReady: () => Promise<boolean>
  /** Sends further observations to a new recorder. */
  readonly record: () => Recorder
  readonly close: () => Promise<void>
}

export const makeWorld = async (size: number, more: Readonly<Record<string, string>> = {}): Promise<World> => {
  const database = await startPostgres()
  const core = await new Core().listen()
  const target = await new Target(core.gates).listen()
  const ports = await Promise.all(Array.from({ length: size }, freePort))
  const balancer = await new Balancer(ports).listen()
  const settings = {
    PUBLIC_URL: balancer.url,
    CORE_URL: core.url,
    WEBHOOK_ALLOW_PRIVATE: "true",
    WEBHOOK_TIMEOUT: "2 seconds",
    LOG_LEVEL: "Warn",
    ...more
  }
  core.limit = Number(more["CORE_RUNS"] ?? Infinity)
  const nodes = await Promise.all(
    ports.map((port, index) => Node.make(`node ${index + 1}`, port, database.url, settings))
  )
  await Promise.all(nodes.map((node) => node.start()))
  const clients = new Clients(balancer.url, target)
  const rows = new Rows(database.url)
  return {
    nodes,
    database,
    core,
    target,
    clients,
    rows,
    areReady: async () => (await Promise.all(nodes.map((node) => node.isReady()))).every((ready) => ready),
    record: () => core.recorder = target.recorder = clients.recorder = new Recorder(),
    close: async () => {
      await rows.close()
      await Promise.all(nodes.map((node) => node.close()))
      await balancer.close()
      await target.close()
      await core.close()
      await database.stop()
    }
  }
}
