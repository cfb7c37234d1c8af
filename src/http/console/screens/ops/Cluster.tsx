/** The nodes with their shards. Any node can be drained through this one. */
import { useState } from "preact/hooks"
import { duration } from "../../clock.ts"
import { Age } from "../../components/Basics.tsx"
import { Confirm } from "../../components/Dialog.tsx"
import { Icon } from "../../components/Icon.tsx"
import { ActionCell, useRows, withAction } from "../../components/Operators.tsx"
import { Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows } from "../../components/Table.tsx"
import { notify } from "../../messages.ts"
import { intervals, post } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"

type Cluster = Views.Cluster
type Node = Cluster["members"][number]

/** One cell for each shard of the cluster, filled if the node owns it. */
const Strip = ({ count, shards }: { readonly shards: ReadonlyArray<number>; readonly count: number }) => {
  const owned = new Set(shards)
  return (
    <span class="strip" role="img" aria-label={`${shards.length} of ${count} shards`}>
      {Array.from({ length: count }, (_, shard) => <i key={shard} data-owned={owned.has(shard) ? "" : undefined} />)}
    </span>
  )
}

const Row = ({ count, node, onMove }: {
  readonly node: Node
  readonly count: number
  readonly onMove: () => void
}) => (
  <tr>
    <th scope="row" class="cell-node">
      <bdi>{node.address}</bdi>
      <span class="detail">
        {node.version}, started <Age at={node.started_at} />
        {node.is_self ? ", serves this page" : ""}
      </span>
    </th>
    <Cell label="State">
      <span class={`state ${node.drained ? "" : "state-delivered"}`}>
        <Icon name={node.drained ? "canceled" : "completed"} />
        {node.drained ? "drained" : "takes part"}
      </span>
    </Cell>
    <Cell label="Shards">
      {node.shards === null ? "all, on one node" : <Strip shards={node.shards} count={count} />}
    </Cell>
    <Cell label="Tasks" class="number">{node.tasks.toLocaleString("en")}</Cell>
    <Cell label="Lateness" class="number">{duration(node.lateness_ms)}</Cell>
    <AgeCell label="Seen" at={node.seen_at} />
    <ActionCell>
      <button type="button" class="button" onClick={onMove}>
        {node.drained ? "Take in" : "Drain"} <span class="visually-hidden">{node.address}</span>
      </button>
    </ActionCell>
  </tr>
)

const Move = ({ node: { address, drained, instance }, onClose, onDone }: {
  readonly node: Node
  readonly onClose: () => void
  readonly onDone: () => void
}) => {
  const move = async () => {
    await post(`/nodes/${instance}/${drained ? "take-in" : "drain"}`)
    notify(drained ? "The node is taken in" : "The node gives its shards away")
    onDone()
  }
  return (
    <Confirm
      title={`${drained ? "Take in" : "Drain"} ${address}?`}
      action={drained ? "Take it in" : "Drain it"}
      isDangerous={!drained}
      onConfirm={move}
      onClose={onClose}
    >
      <p>
        {drained
          ? "It owns shards again and becomes ready."
          : "Its shards move to the other nodes, and it is no longer ready. It still answers requests. Without other nodes its tasks wait."}
      </p>
    </Confirm>
  )
}

export const OpsCluster = () => {
  const [moving, setMoving] = useState<Node>()
  const { polled, refresh } = useRows<Cluster>(() => "/cluster", intervals.overview)
  const names = ["Node", "State", "Shards", "Tasks", "Lateness", "Seen"]
  return (
    <Screen title="Cluster">
      <Loaded polled={polled} refresh={refresh}>
        {({ members, shards, unowned }) => (
          <div>
            {unowned.length === 0
              ? null
              : (
                <p class="banner" role="status">
                  <Icon name="warning" />
                  {unowned.length === 1 ? "1 shard has" : `${unowned.length} shards have`} no owner
                </p>
              )}
            <div class="wide" tabIndex={0} role="region" aria-label="Nodes in rows">
              <Rows
                caption="Nodes"
                columns={withAction(names)}
                numbers={["Tasks", "Lateness"]}
              >
                {members.map((node) => (
                  <Row
                    key={node.instance}
                    node={node}
                    count={shards}
                    onMove={() => setMoving(node)}
                  />
                ))}
              </Rows>
            </div>
          </div>
        )}
      </Loaded>
      {moving === undefined
        ? null
        : <Move node={moving} onClose={() => setMoving(undefined)} onDone={refresh} />}
    </Screen>
  )
}
