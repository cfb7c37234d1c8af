/** The test kit for tests without Effect: a `TestService` whose clock moves with `advance`. */
import { DateTime, type Duration, Effect, Layer, ManagedRuntime } from "effect"
import { TestClock } from "effect/testing"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import type { Behaviour, StartedRun, StoppedRun, TestCore } from "./TestCore.ts"
import { TestService, type TestServiceOptions } from "./TestService.ts"
import type { ReceivedWebhook, WebhookAnswer } from "./TestWebhooks.ts"

const defaultStart = "2026-01-01T00:00:00Z"

type Core = TestCore["Service"]

type Promised<F> = F extends (...args: infer A) => Effect.Effect<infer B, infer _E> ? (...args: A) => Promise<B> : never

/** `TestCore` with Promises instead of Effects. */
export interface PlainCore {
  readonly behave: (behaviour: Behaviour) => void
  readonly runs: () => ReadonlyArray<StartedRun>
  readonly stops: () => ReadonlyArray<StoppedRun>
  readonly runOf: Promised<Core["runOf"]>
  readonly processing: Promised<Core["processing"]>
  readonly progress: Promised<Core["progress"]>
  readonly interrupt: Promised<Core["interrupt"]>
  readonly complete: Promised<Core["complete"]>
  readonly fail: Promised<Core["fail"]>
}

export interface PlainTestService {
  /** Base URL; pass it to a client together with `fetch`. */
  readonly url: string
  readonly fetch: typeof globalThis.fetch
  readonly internalToken: string
  /** Mints a user's JWT. */
  readonly token: (sub: string, claims?: Readonly<Record<string, unknown>>) => Promise<string>
  /** The Promise client for a user. */
  readonly client: (sub: string) => TaskServiceClient
  readonly core: PlainCore
  /** Receives all webhooks, whatever their URL. */
  readonly webhooks: {
    readonly received: () => ReadonlyArray<ReceivedWebhook>
    readonly answerWith: (answer: WebhookAnswer) => void
  }
  /** Advances the clock by `"24 hours"`, `"90 seconds"`, or a number of milliseconds. */
  readonly advance: (duration: Duration.Input) => Promise<void>
  /** The current time of the clock. */
  readonly now: () => Promise<Date>
  readonly close: () => Promise<void>
}

/** Lets pending fibers run until they wait for the clock. */
const runPending = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

export const createTestService = (
  { startAt = defaultStart, ...options }: TestServiceOptions & { readonly startAt?: string | Date } = {}
): Promise<PlainTestService> => {
  const layer = TestService.layer(options).pipe(
    Layer.provideMerge(Layer.effectDiscard(TestClock.setTime(DateTime.makeUnsafe(startAt).epochMilliseconds))),
    Layer.provideMerge(TestClock.layer())
  )
  const runtime = ManagedRuntime.make(layer)
  const promised =
    <A extends ReadonlyArray<unknown>, B, E>(call: (...args: A) => Effect.Effect<B, E>) => (...args: A) =>
      runtime.runPromise(call(...args))
  return runtime.runPromise(
    Effect.map(TestService, ({ core, fetch, internalToken, token, url, webhooks }): PlainTestService => {
      const mint = promised(token)
      return {
        url,
        fetch,
        internalToken,
        token: mint,
        client: (sub) => {
          let minted: Promise<string> | undefined
          return new TaskServiceClient({ baseUrl: url, token: () => minted ??= mint(sub), fetch })
        },
        core: {
          behave: (behaviour) => runtime.runSync(core.behave(behaviour)),
          runs: () => runtime.runSync(core.runs),
          stops: () => runtime.runSync(core.stops),
          runOf: promised(core.runOf),
          processing: promised(core.processing),
          progress: promised(core.progress),
          interrupt: promised(core.interrupt),
          complete: promised(core.complete),
          fail: promised(core.fail)
        },
        webhooks: {
          received: () => runtime.runSync(webhooks.received),
          answerWith: (answer) => runtime.runSync(webhooks.answerWith(answer))
        },
        advance: (duration) =>
          runtime.runPromise(Effect.andThen(runPending, Effect.andThen(TestClock.adjust(duration), runPending))),
        now: () => runtime.runPromise(Effect.map(DateTime.now, DateTime.toDate)),
        close: () => runtime.dispose()
      }
    })
  )
}
