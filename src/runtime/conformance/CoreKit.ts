/** The service's side of the core's protocol: starts and stops runs, receives their events, and answers them as a case defines. */
import { Clock, DateTime, Duration, Effect, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { HttpClient, HttpClientRequest } from "effect/http"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"
import { parseRetryAfter } from "../../domain/DispatchRetry.ts"
import { monotonicMillis } from "../../domain/Timestamp.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"

export interface CoreUnderTest {
  /** Without a trailing slash. */
  readonly url: string
  readonly coreToken: string
  readonly eventToken: string
  /** Sent as `user_token`. */
  readonly userToken: string
  readonly assistant: number
  /** An assistant that calls the client tools it is given. */
  readonly toolsAssistant: number | undefined
  /** The port on which the kit receives events, and the name of this machine for the core. */
  readonly port: number
  readonly host: string
}

export class NotConforming extends Schema.TaggedError<NotConforming>()("NotConforming", { message: Schema.String }) {}

export interface Event {
  readonly event_id: string
  readonly type: string
  readonly accepted?: boolean
  readonly state?: unknown
  readonly tool_calls?: ReadonlyArray<{ readonly id: string }>
}

export interface Run {
  readonly id: string
  readonly body: object
  /** With the status that each was answered. */
  readonly events: Array<Event & { readonly answered: number }>
  /** The status of the answer to the next event. */
  answer: () => number
}

const finalTypes = new Set(["interrupted", "completed", "failed"])
export const isFinal = ({ type }: Event) => finalTypes.has(type)

const callTimeout = Duration.seconds(10)

/** Time for which a run waits for a core without room. */
const patience = Duration.minutes(2)
/** Without `Retry-After`, and at most with it. */
const defaultPause = Duration.seconds(1)
const maxPause = Duration.minutes(1)

export const check = (holds: boolean, message: string) =>
  holds ? Effect.void : Effect.fail(new NotConforming({ message }))

const until = Effect.fnUntraced(function*(holds: () => boolean, timeout: Duration.Input, message: string) {
  const end = (yield* monotonicMillis) + Duration.toMillis(timeout)
  while (!holds()) {
    yield* check((yield* monotonicMillis) < end, message)
    yield* Effect.sleep("20 millis")
  }
})

/** Receives events at a free port, or at the one given. */
const listen = (port: number, receive: (authorization: string | undefined, body: string) => number) =>
  Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const server = createServer((request, response) => {
        void text(request).then((body) => {
          response.writeHead(receive(request.headers.authorization, body), { "content-type": "application/json" })
            .end(JSON.stringify({ status: "processing", applied: true }))
        })
      })
      server.listen(port, () => resume(Effect.succeed(server)))
    }),
    (server) => Effect.sync(() => void server.close())
  )

const makeReceive =
  (core: CoreUnderTest, runs: ReadonlyMap<string, Run>, problems: Array<string>) =>
  (authorization: string | undefined, body: string): number => {
    if (authorization !== `Bearer ${core.eventToken}`) {
      problems.push("an event came without the event token")
      return 401
    }
    const event = JSON.parse(body)
    const run = runs.get(event.run_id)
    if (run === undefined) return 404
    // An integer is the same as its digits.
    const event_id = Number.isSafeInteger(event.event_id) ? String(event.event_id) : event.event_id
    if (typeof event_id !== "string" || event_id === "") problems.push(`${event.type} has no event_id`)
    const answered = run.answer()
    run.events.push({ ...event, event_id, answered })
    return answered
  }

const reported = (run: Run) =>
  until(
    () => run.events.length > 0,
    "30 seconds",
    "no event within 30 s: the answer to POST /runs does not accept a run, its first event does"
  )

/** Waits for the final event. */
const ended = (run: Run) =>
  Effect.andThen(
    until(
      () => run.events.some((event) => isFinal(event) && event.answered === 200),
      "2 minutes",
      "no final event in 2 min"
    ),
    Effect.suspend(() => Effect.orDie(Effect.fromNullishOr(run.events.find(isFinal))))
  )

/** Checks that nothing more comes, after the time that a core may need to stop. */
const quiet = Effect.fnUntraced(function*(run: Run, message: string) {
  yield* Effect.sleep("1 second")
  const before = run.events.length
  yield* Effect.sleep("1 second")
  yield* check(run.events.length === before, message)
})

export const make = Effect.fnUntraced(function*(core: CoreUnderTest) {
  const http = yield* HttpClient.HttpClient
  const random = yield* SecureRandom.SecureRandom
  const runs = new Map<string, Run>()
  /** Faults of events, whatever their case checks. */
  const problems: Array<string> = []
  const server = yield* listen(core.port, makeReceive(core, runs, problems))
  // A TCP server that listens.
  const { port } = server.address() as AddressInfo

  const post = (path: string, body: object, token = core.coreToken) =>
    HttpClientRequest.post(core.url + path).pipe(
      HttpClientRequest.bearerToken(token),
      HttpClientRequest.bodyJsonUnsafe(body),
      http.execute,
      Effect.flatMap((response) =>
        Effect.map(
          response.text,
          (answer) => ({
            answer,
            isOk: response.status >= 200 && response.status < 300,
            status: response.status,
            retryAfter: response.headers["retry-after"]
          })
        )
      ),
      Effect.timeout(callTimeout),
      Effect.mapError((error) => new NotConforming({ message: `POST ${path}: ${rootCauseMessage(error)}` }))
    )

  const newRun = Effect.fnUntraced(function*(more: object = {}) {
    const id = yield* random.uuidV4()
    const deadline = DateTime.add(yield* DateTime.now, { hours: 1 })
    const run: Run = {
      id,
      events: [],
      answer: () => 200,
      body: {
        task_id: yield* random.uuidV4(),
        run_id: id,
        assistant_id: core.assistant,
        input: [{ type: "text", text: "Hello" }],
        turns: [],
        client_tools: [],
        llm_model_id: null,
        image_generator_id: null,
        user: { sub: "conformance" },
        user_token: core.userToken,
        deadline_at: DateTime.formatIso(deadline),
        events_url: `http://${core.host}:${port}/internal/core/events`,
        resume: null,
        ...more
      }
    }
    runs.set(id, run)
    return run
  })

  /** Sends a run once. `pause` is set when the core has no room for it. */
  const offer = Effect.fnUntraced(function*(run: Run) {
    const { answer, isOk, retryAfter, status } = yield* post("/runs", run.body)
    const isBusy = status === 429 || (status === 503 && retryAfter !== undefined)
    yield* check(isOk || isBusy, `POST /runs answered ${status}`)
    const asked = retryAfter === undefined ? null : parseRetryAfter(retryAfter, yield* Clock.currentTimeMillis)
    yield* check(
      isOk || retryAfter === undefined || asked !== null,
      `Retry-After is ${JSON.stringify(retryAfter)}: it must be a number of seconds or an HTTP date`
    )
    return { answer, pause: isOk ? undefined : Duration.min(asked ?? defaultPause, maxPause) }
  })

  /** Sends a run until the core has room for it. */
  const start = Effect.fnUntraced(function*(run: Run) {
    const end = (yield* monotonicMillis) + Duration.toMillis(patience)
    for (;;) {
      const { answer, pause } = yield* offer(run)
      if (pause === undefined) return { answer }
      yield* check((yield* monotonicMillis) < end, "POST /runs answered 429 for 2 min")
      yield* Effect.sleep(pause)
    }
  })

  return {
    core,
    newRun,
    offer,
    post,
    problems,
    start,
    begin: (more?: object) => Effect.tap(newRun(more), start),
    ended,
    quiet,
    reported
  }
})

export interface CoreKit extends Effect.Success<ReturnType<typeof make>> {}
