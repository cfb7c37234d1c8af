/** Commands on the nodes of the service: cluster, drain, rebalance. */
import { Effect, Layer } from "effect"
import { Command } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import type { ClusterView } from "../../http/contract/TaskSchemas.ts"
import { innermost } from "../Endings.ts"
import * as InternalToken from "./InternalToken.ts"
import { failed, print, root } from "./Root.ts"

type Cluster = typeof ClusterView.Type
type Operation = "Operations.cluster" | "Operations.drain" | "Operations.rebalance"

const header = ["node", "version", "shards", "tasks", "next due", "late", "seen", ""]

const rowOf = (member: Cluster["members"][number]) => [
  member.address,
  member.version,
  member.shards === null ? "all" : String(member.shards.length),
  String(member.tasks),
  member.next_due ?? "-",
  `${member.lateness_ms} ms`,
  member.seen_at,
  [member.is_self ? "this one" : "", member.drained ? "drained" : ""].filter((word) => word !== "").join(", ")
]

export const render = ({ members, shards, unowned }: Cluster) => {
  const rows = [header, ...members.map(rowOf)]
  const widths = header.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
  if (unowned.length > 0) lines.push(`${unowned.length} of ${shards} shards have no owner yet.`)
  return lines.join("\n")
}

const command = (name: string, operation: Operation, description: string) =>
  Command.make(
    name,
    { internalToken: InternalToken.flag },
    Effect.fnUntraced(function*({ internalToken }) {
      const { url } = yield* root
      const token = yield* InternalToken.find(internalToken)
      // What only this needs is loaded here, so that the other commands start quickly.
      const RpcClient = yield* Effect.promise(() => import("../../http/client/RpcClient.ts"))
      const layer = Layer.provide(RpcClient.layerHttp({ url, token }), FetchHttpClient.layer)
      const cluster = yield* RpcClient.make.pipe(
        Effect.flatMap((client) => client[operation]()),
        Effect.scoped,
        Effect.provide(layer),
        Effect.mapError((error) => failed(`The service at ${url} could not be asked: ${innermost(error)}`))
      )
      return yield* print(cluster, render)
    })
  ).pipe(Command.withDescription(description))

export const commands = [
  command("cluster", "Operations.cluster", "Show the nodes, their shards and tasks, and how late they are"),
  command("drain", "Operations.drain", "Hand the shards of the node at --url to the others, before it is stopped"),
  command("rebalance", "Operations.rebalance", "Take the node at --url in again: the shards are dealt anew")
] as const
