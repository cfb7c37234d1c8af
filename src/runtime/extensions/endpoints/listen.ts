/**
 * The command `listen`: prints the events of a running service, and posts them to a local URL. It reads the stream of an endpoint without a
 * URL, which it deletes at its end unless it has got one.
 */
import { Cause, Clock, Console, Duration, Effect, Option, Schedule, Schema, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { Sse } from "effect/encoding"
import { FetchHttpClient, HttpClient, HttpClientRequest } from "effect/http"
import { createHmac } from "node:crypto"
import { hostname } from "node:os"
import { format, now } from "../../../domain/Timestamp.ts"
import { standardKey, standardPrefix } from "../../../domain/WebhookSignature.ts"
import { EndpointWithSecretView } from "../../../http/endpoints/EndpointSchemas.ts"
import { rootCauseMessage } from "../../../services/telemetry/RootCause.ts"
import { metadata, optionalInt, optionalText, text } from "../../cli/Flags.ts"
import { call, callEmpty, send } from "../../cli/InternalCall.ts"
import * as Output from "../../cli/Output.ts"
import { described, failed, internalToken, note, root } from "../../cli/Root.ts"

/** A pause after a stream that ended or could not be read. */
const reconnect = Schedule.spaced("2 seconds")
const path = "/webhook-endpoints"
const forwardTimeout = Duration.seconds(15)

const Received = Schema.fromJsonString(Schema.Struct({
  id: Schema.String,
  type: Schema.String,
  data: Schema.Struct({ task: Schema.Struct({ uuid: Schema.String }) })
}))
const decode = Schema.decodeUnknownEffect(Received)

/** Posts an event as the service would. Returns what became of it. */
const forward = Effect.fnUntraced(
  function*(to: string, secret: string, id: string, body: string) {
    const second = String(Math.floor((yield* Clock.currentTimeMillis) / 1000))
    const signature = createHmac("sha256", standardKey(secret)).update(standardPrefix(id, second)).update(body)
    const response = yield* HttpClient.execute(
      HttpClientRequest.post(to).pipe(
        HttpClientRequest.bodyText(body, "application/json"),
        HttpClientRequest.setHeaders({
          "webhook-id": id,
          "webhook-timestamp": second,
          "webhook-signature": `v1,${signature.digest("base64")}`
        })
      )
    )
    return String(response.status)
  },
  Effect.timeout(forwardTimeout),
  Effect.catchCause((cause) => Effect.succeed(rootCauseMessage(Cause.squash(cause))))
)

export const listen = Command.make(
  "listen",
  {
    internalToken,
    forward: text("forward", "Local URL that receives each event, as in http://127.0.0.1:4000/events").pipe(
      Flag.filter((url) => /^https?:/.test(url) && URL.canParse(url), () => "an http or https URL"),
      Flag.optional
    ),
    events: optionalText("events", "Only these, separated by commas, as in task.completed,task.failed"),
    assistant: optionalInt("assistant", "Only of tasks of this assistant"),
    metadata: metadata("Only of tasks with this pair"),
    format: optionalText("format", "default, full or thin")
  },
  Effect.fnUntraced(
    function*({ assistant, events, format: shape, forward: to, internalToken: token, metadata }) {
      const { json } = yield* root
      if (Option.isSome(shape) && shape.value === "cloudevents") {
        return yield* failed(
          "format: Expected default, full or thin, because events are printed with their id and type"
        )
      }
      const create = call(token, EndpointWithSecretView, "POST", path, {
        url: null,
        description: `listen on ${hostname()}`,
        events: Option.getOrNull(Option.map(events, (names) => names.split(","))),
        assistant_ids: Option.getOrNull(Option.map(assistant, (id) => [id])),
        metadata,
        format: Option.getOrNull(shape)
      })
      let isKept = false
      const { id, secret } = yield* Effect.acquireRelease(
        create,
        ({ id }) =>
          isKept
            ? Effect.void
            : Effect.ignore(Effect.timeout(callEmpty(token, "DELETE", `${path}/${id}`), "5 seconds"))
      )
      if (Option.isSome(to)) yield* note(`Events are posted to ${to.value}, signed with ${secret}`)
      yield* note("Waiting for events; Ctrl+C ends.")

      const { text: shown } = yield* Output.current
      const show = Effect.fnUntraced(function*(data: string) {
        const event = yield* decode(data)
        const outcome = Option.isNone(to) ? undefined : yield* forward(to.value, secret, event.id, data)
        const moment = format(yield* now)
        yield* Console.log(
          json
            ? data
            : shown([moment, event.type, event.data.task.uuid, ...(outcome === undefined ? [] : [outcome])].join("  "))
        )
      })

      let position = ""
      const read = Effect.gen(function*() {
        const response = yield* send(token, "GET", `${path}/${id}/events`, {
          headers: position === "" ? {} : { "last-event-id": position }
        })
        const arrived: Array<Sse.Event> = []
        const parser = Sse.makeParser((event) => {
          if (event._tag === "Event") arrived.push(event)
        })
        yield* Stream.runForEach(Stream.decodeText(response.stream), (text) => {
          parser.feed(text)
          return Effect.forEach(
            arrived.splice(0),
            // An event counts as read when it was printed and forwarded.
            ({ data, id }) => Effect.map(show(data), () => void (position = id ?? position)),
            { discard: true }
          )
        })
      })
      // The service may be started again meanwhile. A deleted endpoint does not come back, and one with a URL cannot be read.
      const stream = Effect.catch(read, (error) => {
        const code = "code" in error ? error.code : undefined
        isKept = code === "endpoint_is_sent"
        if (isKept) return failed(`The endpoint of this command, ${id}, has a URL now and is kept`)
        if (code === "endpoint_not_found") return failed("The endpoint of this command was deleted")
        return note(`The stream broke: ${rootCauseMessage(error)}`)
      })
      yield* Effect.repeat(stream, reconnect)
    },
    Effect.scoped,
    Effect.provide(FetchHttpClient.layer)
  )
).pipe(
  described(
    "Print the events of a running service, and post them to a local URL",
    "listen --forward http://127.0.0.1:4000/events"
  )
)
