/** The client of the processing core: starts and stops runs, over HTTP unless the core is built in. */
import {
  Cause,
  Clock,
  Context,
  Deferred,
  type Duration,
  Effect,
  Exit,
  Layer,
  Option,
  Redacted,
  Result,
  Schema
} from "effect"
import { RunAccepted } from "../../domain/CoreProtocol.ts"
import {
  CoreHasNoRoom,
  CoreRefused,
  CoreUnavailable,
  isRetryableStatus,
  parseRetryAfter,
  saysNoRoom,
  unavailable
} from "../../domain/DispatchRetry.ts"
import { fromJsonText, type OpaqueJson, toBytes } from "../../domain/json/OpaqueJson.ts"
import type { Principal } from "../../domain/Principal.ts"
import type { RunId, TaskId } from "../../domain/Task.ts"
import { format, type Timestamp } from "../../domain/Timestamp.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as OutageLog from "../telemetry/OutageLog.ts"
import * as Tracing from "../telemetry/Tracing.ts"
import * as BearerTokens from "./BearerTokens.ts"
import * as CoreReach from "./CoreReach.ts"

export interface CoreResponse {
  readonly status: number
  /** The `Retry-After` header. */
  readonly retryAfter: string | undefined
  /** The text of a short body. */
  readonly body?: string
}

/** One POST to the core, or to another system of the operator that answers shortly. */
export class CoreTransport extends Context.Service<CoreTransport, {
  readonly post: (
    url: string,
    headers: Readonly<Record<string, string>>,
    /** Pieces of JSON. */
    body: ReadonlyArray<Uint8Array>
  ) => Effect.Effect<CoreResponse, CoreUnavailable>
  /** Opens a connection to the server of a URL, and closes it. Through a proxy that forwards `http:` calls it says nothing, and succeeds. */
  readonly connect: (url: string) => Effect.Effect<void, CoreUnavailable>
}>()("async-task-service/services/core/CoreClient/CoreTransport") {}

export interface Run {
  readonly taskId: TaskId
  readonly runId: RunId
  readonly principal: Principal
  readonly userToken: Redacted.Redacted
  readonly deadline: Timestamp
  /** The `RunRequest`, encoded. */
  readonly request: OpaqueJson
  readonly resume: { readonly state: OpaqueJson | null; readonly results: OpaqueJson } | null
}

export interface CoreAddress {
  /** Without a trailing slash. */
  readonly url: string
  /** The first that the core accepts is sent. */
  readonly tokens: ReadonlyArray<Redacted.Redacted>
  /** The URL to which the core reports its events. */
  readonly eventsUrl: string
}

/** Encodes `StartRun`. Request, state and results are inserted unparsed. */
const encode = ({ request, resume, ...run }: Run, eventsUrl: string): ReadonlyArray<Uint8Array> => {
  const own = JSON.stringify({
    task_id: run.taskId,
    run_id: run.runId,
    user: { sub: run.principal.sub },
    user_token: Redacted.value(run.userToken),
    deadline_at: format(run.deadline),
    events_url: eventsUrl
  })
  return toBytes([
    `${own.slice(0, -1)},"resume":`,
    ...(resume === null ? ["null"] : [`{"state":`, resume.state ?? "null", `,"results":`, resume.results, "}"]),
    ",",
    typeof request === "string" ? request.slice(1) : request.subarray(1)
  ])
}

type CallError = CoreUnavailable | CoreRefused
type StartError = CallError | CoreHasNoRoom

/** The outcome label of a call; undefined when it was interrupted. */
const outcomeOf = (exit: Exit.Exit<unknown, StartError>): string | undefined => {
  if (Exit.isSuccess(exit)) return "accepted"
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  return error && outcomes[error._tag]
}

const outcomes = {
  CoreRefused: "refused",
  CoreUnavailable: "unavailable",
  CoreHasNoRoom: "busy"
} as const satisfies Record<
  StartError["_tag"],
  string
>

/** Measures a call and adds a client span. */
const observed = <A, E extends StartError>(operation: "start" | "stop", runId: RunId, call: Effect.Effect<A, E>) => {
  const measured = Metrics.timed(call, (seconds, exit) => {
    const outcome = outcomeOf(exit)
    if (outcome !== undefined) Metrics.coreCalls.record(seconds, operation, outcome)
  })
  return Tracing.withSpan(measured, `core ${operation}`, () => ({ kind: "client", attributes: { "run.id": runId } }))
}

/** The two calls to a core. */
export interface CoreCalls {
  /** Starts a run. Idempotent by `run_id`, so it may be retried. Returns the seconds of silence that the core declares, if any. */
  readonly start: (run: Run) => Effect.Effect<number | undefined, StartError>
  /** Stops a run. Returns whether the core knew it. */
  readonly stop: (runId: RunId, reason: string) => Effect.Effect<boolean, CallError>
}

/** The calls, and whether they reach the core. */
interface ReachableCore extends CoreCalls {
  /** The moment from which on this node cannot reach the core; asks again when the latest answer is older than `maxAge`. */
  readonly unreachable: (maxAge: Duration.Duration) => Effect.Effect<CoreReach.Unreachable | undefined>
}

const decodeAccepted = Schema.decodeUnknownResult(fromJsonText(RunAccepted))

/** Returns a function that reads what an answer declares. An answer without a valid declaration declares nothing. */
const makeDeclared = () => {
  const { log } = OutageLog.make()
  return ({ body = "" }: CoreResponse): Effect.Effect<number | undefined> => {
    if (!body.includes("silence_seconds")) return Effect.succeed(undefined)
    const decoded = decodeAccepted(body)
    return Result.isSuccess(decoded)
      ? Effect.succeed(decoded.success.silence_seconds ?? undefined)
      : Effect.as(log(`The core's declaration of silent runs is ignored: ${decoded.failure.message}`), undefined)
  }
}

/** The calls by HTTP. */
const makeHttpCalls = (address: CoreAddress, send: CoreTransport["Service"]["post"]): CoreCalls => {
  const declaredBy = makeDeclared()
  const withToken = BearerTokens.make(address.tokens)

  const post = (path: string, body: ReadonlyArray<Uint8Array>) =>
    Effect.flatMap(
      withToken((headers) =>
        Effect.flatMap(Tracing.propagate(headers), (traced) => send(address.url + path, traced, body))
      ),
      (response): Effect.Effect<CoreResponse, StartError> => {
        const { status } = response
        if (status >= 200 && status < 300) return Effect.succeed(response)
        if (!isRetryableStatus(status)) return Effect.fail(new CoreRefused({ status }))
        return Effect.flatMap(Clock.currentTimeMillis, (at) => {
          const retryAfter = response.retryAfter === undefined ? null : parseRetryAfter(response.retryAfter, at)
          return Effect.fail(
            saysNoRoom(status, retryAfter)
              ? new CoreHasNoRoom({ status, retryAfter })
              : new CoreUnavailable({ reason: `status ${status}`, retryAfter })
          )
        })
      }
    )

  return {
    start: (run) => Effect.flatMap(post("/runs", encode(run, address.eventsUrl)), declaredBy),
    stop: (runId, reason) =>
      post(`/runs/${runId}/stop`, toBytes([JSON.stringify({ reason })])).pipe(
        Effect.as(true),
        Effect.catch((error): Effect.Effect<boolean, CallError> => {
          if (error._tag === "CoreHasNoRoom") return Effect.fail(unavailable(error))
          return error._tag === "CoreRefused" && error.status === 404 ? Effect.succeed(false) : Effect.fail(error)
        })
      )
  }
}

export class CoreClient extends Context.Service<CoreClient, ReachableCore>()(
  "async-task-service/services/core/CoreClient"
) {
  /** Measures, traces and logs the calls, and delays the stop of a run until its start has ended. A built-in core is always reached. */
  static readonly make = (calls: CoreCalls & Partial<ReachableCore>): ReachableCore => {
    /** Starts in flight on this node. If a stop arrived first, the core would respond 404 and the run would continue. */
    const starting = new Map<RunId, Deferred.Deferred<void>>()
    const outage = OutageLog.make()
    const logUnavailable = (error: StartError) =>
      error._tag === "CoreUnavailable"
        ? outage.log(`The core is unavailable: ${error.reason}. Runs are retried until their tasks expire`)
        : Effect.void
    let declared: number | undefined | null = null
    const noteDeclared = (seconds: number | undefined) => {
      if (seconds !== declared) Metrics.coreSilence.set(seconds ?? 0)
      declared = seconds
      return Effect.void
    }
    return {
      unreachable: calls.unreachable ?? (() => Effect.succeed(undefined)),
      start: (run) =>
        Effect.suspend(() => {
          const answered = Deferred.makeUnsafe<void>()
          starting.set(run.runId, answered)
          return Effect.ensuring(
            Effect.tapError(Effect.tap(observed("start", run.runId, calls.start(run)), noteDeclared), logUnavailable),
            Effect.sync(() => {
              if (starting.get(run.runId) === answered) starting.delete(run.runId)
              Deferred.doneUnsafe(answered, Effect.void)
            })
          )
        }),
      stop: Effect.fnUntraced(function*(runId: RunId, reason: string) {
        const answered = starting.get(runId)
        if (answered !== undefined) yield* Deferred.await(answered)
        return yield* observed("stop", runId, calls.stop(runId, reason))
      })
    }
  }

  static readonly layer = (address: CoreAddress) =>
    Layer.effect(
      CoreClient,
      Effect.gen(function*() {
        const { connect, post } = yield* CoreTransport
        const { observe, unreachable } = yield* CoreReach.make(connect(address.url))
        const calls = makeHttpCalls(address, (...request) => observe(post(...request)))
        return CoreClient.make({ ...calls, unreachable })
      })
    )
}
