/** Commands for webhooks: deliveries, redeliver. */
import { Effect, Option } from "effect"
import { Argument, Command } from "effect/cli"
import type { Delivery } from "../../http/client/promise/Types.ts"
import { optionalText, uuid } from "./Flags.ts"
import { call, print } from "./Root.ts"

const render = ({ attempts, id, next_attempt_at, state, status }: Delivery) =>
  [
    `${id}  ${status.padEnd(11)}  ${state}${next_attempt_at === null ? "" : `, next attempt ${next_attempt_at}`}`,
    ...attempts.map(({ duration_ms, error, number, response_status, started_at }) =>
      `  ${number}  ${started_at}  ${response_status ?? "no answer"}  ${duration_ms ?? "?"} ms  ${error ?? ""}`
        .trimEnd()
    )
  ].join("\n")

const deliveries = Command.make("deliveries", { uuid }, ({ uuid }) =>
  Effect.flatMap(
    call((client, signal) => client.tasks.deliveries(uuid, { signal })),
    (found) => print(found, (all) => all.map(render).join("\n") || "No webhooks.")
  )).pipe(Command.withDescription("List the webhook deliveries of a task and their attempts"))

const redeliver = Command.make("redeliver", {
  uuid,
  delivery: Argument.String("delivery").pipe(Argument.withDescription("Delivery id")),
  secret: optionalText(
    "callback-secret",
    "The task's callback_secret, which the service deletes after a successful delivery"
  )
}, ({ delivery, secret, uuid }) =>
  Effect.flatMap(
    call((client, signal) =>
      client.tasks.redeliver(uuid, delivery, {
        signal,
        ...(Option.isSome(secret) ? { callback_secret: secret.value } : {})
      })
    ),
    (scheduled) => print(scheduled, render)
  )).pipe(Command.withDescription("Send a webhook again"))

export const commands = [deliveries, redeliver] as const
