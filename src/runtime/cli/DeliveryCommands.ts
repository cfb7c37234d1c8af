/** Commands for webhooks: deliveries, redeliver. */
import { Option } from "effect"
import { Argument, Command } from "effect/cli"
import type { Delivery } from "../../http/client/promise/Types.ts"
import { optionalText, uuid } from "./Flags.ts"
import type { Output } from "./Output.ts"
import { call, described, printResult } from "./Root.ts"

const header = ["DELIVERY", "STATUS", "STATE", "NEXT", "ATTEMPT", "STARTED", "RESPONSE", "TIME", "ERROR"]

/** One row for each attempt; the first one also describes the delivery. */
const render = (all: ReadonlyArray<Delivery>, { age, table }: Output) =>
  table(
    header,
    all.flatMap(({ attempts, id, next_attempt_at, state, status }) => {
      const delivery = [id, status, state, age(next_attempt_at)]
      if (attempts.length === 0) return [delivery]
      return attempts.map(({ duration_ms, error, hint, number, response_status, started_at }, index) => [
        ...(index === 0 ? delivery : ["", "", "", ""]),
        String(number),
        age(started_at),
        String(response_status ?? "none"),
        duration_ms === null ? "-" : `${duration_ms} ms`,
        [error, hint].filter((text) => text).join(". ")
      ])
    }),
    "No webhooks."
  )

const deliveries = Command.make("deliveries", { uuid }, ({ uuid }) =>
  printResult(
    call((client, signal) => client.tasks.deliveries(uuid, { signal })),
    render
  )).pipe(described("List the webhook deliveries of a task and their attempts", "deliveries $UUID"))

const redeliver = Command.make("redeliver", {
  uuid,
  delivery: Argument.String("delivery").pipe(Argument.withDescription("Delivery id")),
  secret: optionalText(
    "callback-secret",
    "The task's callback_secret, which the service deletes after a successful delivery"
  )
}, ({ delivery, secret, uuid }) =>
  printResult(
    call((client, signal) =>
      client.tasks.redeliver(uuid, delivery, {
        signal,
        ...(Option.isSome(secret) ? { callback_secret: secret.value } : {})
      })
    ),
    (delivery, output) => render([delivery], output)
  )).pipe(described("Send a webhook again", "redeliver $UUID $DELIVERY"))

export const commands = [deliveries, redeliver] as const
