/** Handlers of `contract/rpc/RpcOperations`: statistics, the delivery log, and the nodes of the cluster. */
import { Effect } from "effect"
import { formatOrNull } from "../../../domain/Timestamp.ts"
import { TaskOwnership } from "../../../services/cluster/TaskOwnership.ts"
import { ClusterNodes } from "../../../services/operations/ClusterNodes.ts"
import { TaskScans } from "../../../services/store/TaskScans.ts"
import { Tasks } from "../../../services/Tasks.ts"
import { Webhooks } from "../../../services/Webhooks.ts"
import { OperationsRpc } from "../../contract/rpc/RpcOperations.ts"
import * as Deliveries from "../Deliveries.ts"
import * as OperatorViews from "../OperatorViews.ts"
import { decode, invalid, refuseOutage } from "./RpcRequests.ts"

const limits = { default: 100, maximum: 500 }

const wrongLimit = invalid("limit", `Expected an integer between 1 and ${limits.maximum}`)

const checkOrigin = (origin: string | undefined) =>
  origin === undefined || (URL.canParse(origin) && new URL(origin).origin === origin)
    ? Effect.void
    : Effect.fail(invalid("origin", "Expected an origin, as in https://client.example"))

export const layer = OperationsRpc.toLayer(
  Effect.gen(function*() {
    const scans = yield* TaskScans
    const tasks = yield* Tasks
    const webhooks = yield* Webhooks
    const ownership = yield* TaskOwnership
    const members = yield* ClusterNodes
    const cluster = Effect.map(members.all, OperatorViews.cluster).pipe(refuseOutage)
    const stats = Effect.map(scans.stats, ({ counts, nextDeadline }) => ({
      counts,
      next_deadline: formatOrNull(nextDeadline)
    })).pipe(refuseOutage)
    const move = (change: "drain" | "undrain") =>
      Effect.logInfo(`${change}ing: an operator asked for it`).pipe(
        Effect.andThen(ownership[change]),
        Effect.andThen(cluster)
      )
    return OperationsRpc.of({
      "Operations.stats": () => stats,
      "Operations.standing": () => stats,
      "Operations.deliveries": Effect.fnUntraced(function*({ limit = limits.default, origin, state }) {
        if (limit < 1 || limit > limits.maximum) return yield* wrongLimit
        yield* checkOrigin(origin)
        const found = yield* webhooks.find({ origin, state, limit })
        return found.map(Deliveries.view)
      }, refuseOutage),
      "Operations.redeliver": ({ id }) => webhooks.redeliverAny(id).pipe(Effect.map(Deliveries.view), refuseOutage),
      "Operations.redeliverFailed": ({ origin }) =>
        checkOrigin(origin).pipe(Effect.andThen(webhooks.redeliverFailed(origin)), refuseOutage),
      "Operations.cancel": Effect.fnUntraced(function*({ body = {}, uuid }) {
        const task = yield* refuseOutage(tasks.findHead(uuid))
        const { reason } = yield* decode("cancel", body)
        yield* refuseOutage(tasks.withdraw(task, reason))
        yield* Effect.annotateLogs(Effect.logInfo("a task was canceled: an operator asked for it"), {
          taskId: task.uuid
        })
        return { uuid: task.uuid, status: "canceled" }
      }),
      "Operations.cluster": () => cluster,
      "Operations.drain": () => move("drain"),
      "Operations.undrain": () => move("undrain"),
      "Operations.rebalance": () => move("undrain")
    })
  })
)
