/** Commands for the nodes of the service: cluster, drain, undrain. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import type { ClusterView } from "../../http/contract/TaskSchemas.ts"
import * as InternalToken from "./InternalToken.ts"
import { print } from "./Root.ts"

type Cluster = typeof ClusterView.Type
type Operation = "Operations.cluster" | "Operations.drain" | "Operations.rebalance"

const header = ["NODE", "VERSION", "SHARDS", "TASKS", "NEXT DUE", "LATENESS", "LAST SEEN", "STATUS"]

const rowOf = (member: Cluster["members"][number]) => [
  member.address,
  member.version,
  member.shards === null ? "all" : String(member.shards.length),
  String(member.tasks),
  member.next_due ?? "-",
  `${member.lateness_ms} ms`,
  member.seen_at,
  [member.is_self ? "self" : "", member.drained ? "drained" : ""].filter((word) => word !== "").join(", ")
]

export const render = ({ members, shards, unowned }: Cluster) => {
  const rows = [header, ...members.map(rowOf)]
  const widths = header.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd())
  if (unowned.length > 0) lines.push(`${unowned.length} of ${shards} shards have no owner.`)
  return lines.join("\n")
}

const command = (name: string, operation: Operation, description: string) =>
  Command.make(
    name,
    { internalToken: InternalToken.flag },
    ({ internalToken }) =>
      Effect.flatMap(
        InternalToken.call(internalToken, (client) => client[operation]()),
        (cluster) => print(cluster, render)
      )
  ).pipe(Command.withDescription(description))

const undrain = (name: "undrain" | "rebalance") =>
  command(name, "Operations.rebalance", "Let a drained node own shards again")

export const commands = [
  command("cluster", "Operations.cluster", "List the nodes with their shards, tasks and lateness"),
  command("drain", "Operations.drain", "Move the shards of a node to the other nodes before you stop it"),
  undrain("undrain"),
  // The former name.
  Command.unlisted(undrain("rebalance"))
] as const
