/** The HTTP routes of the built-in core, which reports its events over HTTP. */
import { Duration, Effect, type Redacted } from "effect"
import { HttpClient, HttpClientRequest, HttpRouter, HttpServerResponse } from "effect/http"
import { StartRun } from "../../../domain/CoreProtocol.ts"
import { isOneOf } from "../../../http/handlers/Authorization.ts"
import * as BearerTokens from "../../../services/core/BearerTokens.ts"
import * as BoundedBody from "../../../services/limits/BoundedBody.ts"
import * as HttpHelpers from "../HttpHelpers.ts"
import * as BackendClient from "./BackendClient.ts"
import * as BuiltinCore from "./BuiltinCore.ts"
import { silenceSeconds } from "./SignsOfLife.ts"

export interface CoreOptions {
  /** Without a trailing slash. */
  readonly backendUrl: string
  /** The first that the service accepts is sent with every event. */
  readonly eventTokens: ReadonlyArray<Redacted.Redacted>
  /** One of them is required with every call. */
  readonly tokens: ReadonlyArray<Redacted.Redacted>
  /** The only origin to which events and their token are sent; undefined allows any port of loopback. */
  readonly eventsOrigin: string | undefined
  /** The runs that work at a time. Others are answered with 429. */
  readonly maxRuns: number
}

const isLoopback = ({ hostname }: URL) => /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(hostname)

/** True if events of a run may be sent to `url`. Any other receiver would obtain the token. */
const isEventsUrl = (url: string, origin: string | undefined) => {
  const parsed = URL.parse(url)
  return parsed !== null && /^https?:$/.test(parsed.protocol)
    && (origin === undefined ? isLoopback(parsed) : parsed.origin === origin)
}

/** Maximum bytes of the response to an event. Only its status is used. */
const maxAnswerBytes = 1024 * 1024

const receiptOf = (status: number): BuiltinCore.Receipt => {
  if (status < 400) return "accepted"
  return status === 413 || status === 422 ? "invalid" : "unwanted"
}

const makeReport = ({ eventTokens }: CoreOptions, http: HttpClient.HttpClient): BuiltinCore.Report<StartRun> => {
  const withToken = BearerTokens.make(eventTokens)
  return Effect.fnUntraced(function*({ events_url }, event) {
    const request = HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(events_url), event)
    const { status } = yield* withToken((headers) =>
      http.execute(HttpClientRequest.setHeaders(request, headers)).pipe(
        // Reading the body frees the connection for reuse.
        Effect.tap((response) => Effect.ignore(BoundedBody.readBytes(response, maxAnswerBytes))),
        Effect.timeout("10 seconds"),
        Effect.mapError((cause) => new BuiltinCore.NotReported({ cause }))
      )
    )
    if (status >= 500 || status === 429) return yield* new BuiltinCore.NotReported({ cause: `status ${status}` })
    if (status === 401) {
      yield* Effect.logError(
        `${events_url} refuses this core: CORE_EVENT_TOKENS, or else INTERNAL_TOKENS, has to be the same here and there`
      )
    }
    return receiptOf(status)
  })
}

const readRun = HttpHelpers.read(StartRun)

export const layer = (options: CoreOptions) =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const backend = yield* BackendClient.make(options.backendUrl)
    const { maxRuns } = options
    const core = yield* BuiltinCore.make({
      backend,
      maxRuns,
      report: makeReport(options, yield* HttpClient.HttpClient)
    })
    const busy = HttpServerResponse.setHeader(
      HttpHelpers.respond(429, { message: `The core has ${maxRuns} runs, which is its limit (MODEL_RUNS)` }),
      "retry-after",
      String(Duration.toSeconds(BuiltinCore.retryAfter))
    )

    const start = Effect.gen(function*() {
      const run = yield* readRun
      if (!isEventsUrl(run.events_url, options.eventsOrigin)) {
        const message = "Must be a URL of the service, as the core knows it by PUBLIC_URL"
        return HttpHelpers.respond(422, { message, errors: { events_url: [message] } })
      }
      return (yield* core.start(run)) ? HttpHelpers.respond(202, { silence_seconds: silenceSeconds }) : busy
    })

    const stop = Effect.gen(function*() {
      const { runId = "" } = yield* HttpRouter.params
      return HttpServerResponse.empty({ status: (yield* core.stop(runId)) ? 202 : 404 })
    })

    const handler = HttpHelpers.handler((given) => Effect.sync(() => isOneOf(options.tokens, given) ? true : undefined))
    yield* router.add("POST", "/runs", handler(() => start))
    yield* router.add("POST", "/runs/:runId/stop", handler(() => stop))
  }))
