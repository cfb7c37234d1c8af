/** `contract/RpcOperations`: what stands where, and the ledger of webhooks. */
import { Effect } from "effect"
import { format } from "../../domain/Timestamp.ts"
import { TaskRepository } from "../../services/TaskRepository.ts"
import { Webhooks } from "../../services/Webhooks.ts"
import { InvalidRequest } from "../contract/RpcErrors.ts"
import { OperationsRpc } from "../contract/RpcOperations.ts"
import * as Deliveries from "./Deliveries.ts"

const limits = { default: 100, maximum: 500 }

const limitMessage = `Expected an integer between 1 and ${limits.maximum}`
const wrongLimit = new InvalidRequest({ message: `limit: ${limitMessage}`, errors: { limit: [limitMessage] } })

export const layer = OperationsRpc.toLayer(
  Effect.gen(function*() {
    const repository = yield* TaskRepository
    const webhooks = yield* Webhooks
    return OperationsRpc.of({
      "Operations.standing": () =>
        Effect.map(repository.standing, ({ counts, nextDeadline }) => ({
          counts,
          next_deadline: nextDeadline === null ? null : format(nextDeadline)
        })),
      "Operations.deliveries": Effect.fnUntraced(function*({ limit = limits.default, origin, state }) {
        if (limit < 1 || limit > limits.maximum) return yield* wrongLimit
        const found = yield* webhooks.find({ origin, state, limit })
        return found.map(Deliveries.view)
      }),
      "Operations.redeliver": ({ id }) => Effect.map(webhooks.redeliverAny(id), Deliveries.view),
      "Operations.redeliverFailed": ({ origin }) => webhooks.redeliverFailed({ origin })
    })
  })
)
