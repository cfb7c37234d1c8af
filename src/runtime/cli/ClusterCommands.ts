/** Commands for the nodes of the service: cluster, drain, undrain. */
import { Command } from "effect/cli"
import type { ClusterView } from "../../http/contract/OperatorSchemas.ts"
import * as InternalToken from "./InternalToken.ts"
import type { Output } from "./Output.ts"
import { described, printResult } from "./Root.ts"

type Cluster = typeof ClusterView.Type
type Operation = "Operations.cluster" | "Operations.drain" | "Operations.rebalance"

const header = ["NODE", "VERSION", "SHARDS", "TASKS", "NEXT DUE", "LATENESS", "LAST SEEN", "STATUS"]

const render = ({ members, shards, unowned }: Cluster, { age, table }: Output) => {
  const rows = members.map((member) => [
    member.address,
    member.version,
    member.shards === null ? "all" : String(member.shards.length),
    String(member.tasks),
    age(member.next_due),
    `${member.lateness_ms} ms`,
    age(member.seen_at),
    [member.is_self ? "self" : "", member.drained ? "drained" : ""].filter((word) => word !== "").join(", ")
  ])
  const nodes = table(header, rows, "No nodes.")
  return unowned.length === 0 ? nodes : `${nodes}\n${unowned.length} of ${shards} shards have no owner.`
}

const command = (name: string, operation: Operation, description: string) =>
  Command.make(
    name,
    { internalToken: InternalToken.flag },
    ({ internalToken }) =>
      printResult(
        InternalToken.call(internalToken, (client) => client[operation]()),
        render
      )
  ).pipe(described(description, `${name} --url http://10.0.0.7:3000`))

const undrain = (name: "undrain" | "rebalance") =>
  command(name, "Operations.rebalance", "Let a drained node own shards again")

export const commands = [
  command("cluster", "Operations.cluster", "List the nodes with their shards, tasks and lateness"),
  command("drain", "Operations.drain", "Move the shards of a node to the other nodes before you stop it"),
  undrain("undrain"),
  // The former name.
  Command.unlisted(undrain("rebalance"))
] as const
