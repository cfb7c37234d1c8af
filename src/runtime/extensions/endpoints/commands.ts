/** The group of commands `endpoints`, and `listen`. */
import { Effect, Option, Record } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { format, now } from "../../../domain/Timestamp.ts"
import * as Views from "../../../http/endpoints/EndpointSchemas.ts"
import { boolean, optionalInt, optionalText, text, usage } from "../../cli/Flags.ts"
import { call, callEmpty, flagsOf, listing, queryOf, withNext } from "../../cli/InternalCall.ts"
import type * as Output from "../../cli/Output.ts"
import { described, internalToken, note, print, printResult } from "../../cli/Root.ts"
import { listen } from "./listen.ts"

const id = Argument.String("id").pipe(Argument.withDescription("Endpoint id"))
const path = "/webhook-endpoints"
const pathOf = (id: string) => `${path}/${encodeURIComponent(id)}`

type Endpoint = typeof Views.EndpointView.Type
type WithSecret = typeof Views.EndpointWithSecretView.Type

const stateOf = ({ disabled_reason: reason, failing_since: since }: Endpoint) =>
  reason !== null ? `disabled (${reason})` : since === null ? "enabled" : "failing"

const render = (endpoint: Endpoint, { age, fields }: Output.Output) =>
  fields([
    ["Endpoint", endpoint.id],
    ["URL", endpoint.url ?? "none: its events are read"],
    ["Description", endpoint.description],
    ["State", stateOf(endpoint)],
    ["Failing", endpoint.failing_since === null ? null : `since ${age(endpoint.failing_since)}`],
    ["Last success", age(endpoint.last_success_at)],
    ["Events", endpoint.events.join(", ")],
    ["Assistants", endpoint.assistant_ids?.join(", ")],
    ["Metadata", endpoint.metadata && Object.entries(endpoint.metadata).map((pair) => pair.join("=")).join(", ")],
    ["Format", endpoint.format],
    ["Old secret", endpoint.old_secret_until === null ? null : `signs until ${endpoint.old_secret_until}`]
  ])

const renderSecret = (endpoint: WithSecret, output: Output.Output) =>
  `${render(endpoint, output)}\n${output.fields([["Secret", `${endpoint.secret} (it is not shown again)`]])}`

const definition = {
  description: optionalText("description", "For people"),
  events: optionalText("events", "Only these, separated by commas, as in task.completed,task.failed"),
  assistants: optionalText("assistants", "Only of tasks of these assistants, separated by commas"),
  metadata: Flag.KeyValuePair("metadata").pipe(
    Flag.withDescription("Only of tasks with this pair: key=value; repeatable"),
    Flag.optional
  ),
  format: optionalText("format", "default, full, thin or cloudevents")
}

interface Given {
  readonly description: Option.Option<string>
  readonly events: Option.Option<string>
  readonly assistants: Option.Option<string>
  readonly metadata: Option.Option<Readonly<Record<string, string>>>
  readonly format: Option.Option<string>
}

/** The service refuses what is wrong. */
const bodyOf = ({ assistants, description, events, format, metadata }: Given) =>
  Record.getSomes<string, unknown>({
    description,
    events: Option.map(events, (names) => names.split(",")),
    assistant_ids: Option.map(assistants, (ids) => ids.split(",").map((id) => Number(id))),
    metadata,
    format
  })

const create = Command.make(
  "create",
  {
    url: Argument.String("url").pipe(
      Argument.withDescription("Receives the events; without it they are read"),
      Argument.optional
    ),
    disabled: boolean("disabled", "Collect events, and send nothing yet"),
    ...definition,
    internalToken
  },
  ({ disabled, internalToken, url, ...given }) =>
    printResult(
      call(internalToken, Views.EndpointWithSecretView, "POST", path, {
        url: Option.getOrNull(url),
        disabled,
        ...bodyOf(given)
      }),
      renderSecret
    )
).pipe(
  described("Register a webhook endpoint", "endpoints create https://hooks.example.com/tasks --events task.failed")
)

const list = listing("list", path, Views.EndpointsView, Views.parameters.list, {
  ENDPOINT: ({ id }) => id,
  STATE: stateOf,
  "LAST SUCCESS": ({ last_success_at: at }, { age }) => age(at),
  FORMAT: ({ format }) => format,
  URL: ({ url }) => url ?? "(read)",
  DESCRIPTION: ({ description }) => description ?? ""
}, "No webhook endpoints.").pipe(described("List webhook endpoints", "endpoints list"))

const show = Command.make(
  "show",
  { id, internalToken },
  ({ id, internalToken }) => printResult(call(internalToken, Views.EndpointView, "GET", pathOf(id)), render)
).pipe(described("Show a webhook endpoint and how it is doing", "endpoints show whe_…"))

const update = Command.make(
  "update",
  {
    id,
    newUrl: optionalText("to", "The new URL"),
    enable: boolean("enable", "Go on with what is younger than 7 days"),
    disable: boolean("disable", "Send nothing for now"),
    ...definition,
    internalToken
  },
  Effect.fnUntraced(function*({ disable, enable, id, internalToken, newUrl, ...given }) {
    const body = {
      ...bodyOf(given),
      ...(Option.isSome(newUrl) ? { url: newUrl.value } : {}),
      ...(enable || disable ? { disabled: disable } : {})
    }
    yield* printResult(call(internalToken, Views.EndpointView, "PATCH", pathOf(id), body), render)
  })
).pipe(
  Command.validate(({ disable, enable, newUrl, ...given }) =>
    usage(
      enable && disable
        ? "Pass --enable or --disable, not both"
        : !enable && !disable && Option.isNone(newUrl) && Object.keys(bodyOf(given)).length === 0
          && "Nothing to change: pass at least one flag"
    )
  ),
  described("Change, enable or disable a webhook endpoint", "endpoints update whe_… --enable")
)

const remove = Command.make(
  "delete",
  { id, internalToken },
  Effect.fnUntraced(function*({ id, internalToken }) {
    yield* callEmpty(internalToken, "DELETE", pathOf(id))
    yield* print({ deleted: id }, ({ deleted }) => `deleted ${deleted}`)
  })
).pipe(described("Delete a webhook endpoint", "endpoints delete whe_…"))

const rotate = Command.make(
  "rotate-secret",
  {
    id,
    keepOldFor: optionalInt("keep-old-for", "Seconds for which the old secret signs too (default: 86400)"),
    internalToken
  },
  ({ id, internalToken, keepOldFor }) =>
    printResult(
      call(internalToken, Views.EndpointWithSecretView, "POST", `${pathOf(id)}/rotate-secret`, {
        keep_old_for: Option.getOrNull(keepOldFor)
      }),
      renderSecret
    )
).pipe(described("Replace the secret of a webhook endpoint", "endpoints rotate-secret whe_…"))

const test = Command.make(
  "test",
  { id, event: optionalText("event", "Type of the sample (default: task.completed)"), internalToken },
  ({ event, id, internalToken }) =>
    printResult(
      call(internalToken, Views.TestedView, "POST", `${pathOf(id)}/test`, { event: Option.getOrNull(event) }),
      ({ duration_ms: duration, error, id, number, response_status: status, type }, { fields }) =>
        fields([
          ["Sample", `${id} (${type})`],
          ["Result", number === 0 ? "nothing was sent: it is read" : error ?? "delivered"],
          ["Status", status === null ? null : String(status)],
          ["Duration", duration === null ? null : `${duration} ms`]
        ])
    )
).pipe(described("Send a sample to a webhook endpoint", "endpoints test whe_… --event task.failed"))

const deliveries = Command.make(
  "deliveries",
  { id, given: flagsOf(Views.parameters.deliveries), internalToken },
  ({ given, id, internalToken }) =>
    printResult(
      call(internalToken, Views.EndpointDeliveriesView, "GET", `${pathOf(id)}/deliveries${queryOf(given)}`),
      (page, { age, table }) =>
        withNext(
          table(
            ["DELIVERY", "TYPE", "STATE", "CREATED", "ATTEMPTS", "NEXT", "LAST RESULT"],
            page.data.map(({ attempts, created_at, dropped, id, next_attempt_at: next, state, type }) => {
              const { error, response_status: status } = attempts.at(-1) ?? {}
              return [
                id,
                type,
                state,
                age(created_at),
                String(attempts.length),
                age(next),
                dropped ?? ([error, status].filter((part) => part !== undefined && part !== null).join(" ") || "-")
              ]
            }),
            "No deliveries."
          ),
          page
        )
    )
).pipe(described("List the deliveries of a webhook endpoint", "endpoints deliveries whe_… --state failed"))

const redeliver = Command.make(
  "redeliver",
  { id, delivery: Argument.String("delivery").pipe(Argument.withDescription("Delivery id")), internalToken },
  ({ delivery, id, internalToken }) =>
    printResult(
      call(
        internalToken,
        Views.EndpointDeliveryView,
        "POST",
        `${pathOf(id)}/deliveries/${encodeURIComponent(delivery)}/redeliver`
      ),
      ({ state }) => state
    )
).pipe(described("Send an event to a webhook endpoint again", "endpoints redeliver whe_… evt_…"))

const replay = Command.make(
  "replay",
  {
    id,
    from: text("from", "Begin of the range, a moment in ISO 8601"),
    to: optionalText("to", "End of the range (default: now)"),
    failedOnly: boolean("failed-only", "Only deliveries that never succeeded"),
    internalToken
  },
  Effect.fnUntraced(function*({ failedOnly, from, id, internalToken, to }) {
    const until = format(yield* now)
    const replayed = yield* call(internalToken, Views.ReplayedView, "POST", `${pathOf(id)}/replay`, {
      from,
      to: Option.getOrElse(to, () => until),
      failed_only: failedOnly
    })
    yield* print(replayed, ({ enqueued }) => `${enqueued === 1 ? "1 event is" : `${enqueued} events are`} sent again`)
    if (replayed.left > 0) yield* note(`${replayed.left} more are left: run it again when these are sent.`)
  })
).pipe(
  described("Send the events of a range again", "endpoints replay whe_… --from 2026-11-21T00:00:00Z --failed-only")
)

const endpoints = Command.make("endpoints").pipe(
  Command.withSubcommands([list, create, show, update, remove, rotate, test, deliveries, redeliver, replay]),
  described("Webhook endpoints: handlers of the events of all tasks", "endpoints list")
)

export const commands = [endpoints, listen] as const
