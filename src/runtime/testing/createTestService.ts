/** The test kit for tests without Effect: the same service, with a clock that `advance` moves. */
import { DateTime, type Duration, Effect, Layer, ManagedRuntime } from "effect"
import { TestClock } from "effect/testing"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import type { Behaviour, StartedRun, StoppedRun, TestCore } from "./TestCore.ts"
import { TestService, type TestServiceOptions } from "./TestService.ts"
import type { ReceivedWebhook, WebhookAnswer } from "./TestWebhooks.ts"

/** When the clock starts, unless a test says otherwise. */
const beginning = "2026-01-01T00:00:00Z"

type Core = TestCore["Service"]

type Promised<F> = F extends (...args: infer A) => Effect.Effect<infer B, infer _E> ? (...args: A) => Promise<B> : never

/** The core as a test without Effect drives it. */
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
  /** Give it to any client, with `fetch`. */
  readonly url: string
  readonly fetch: typeof globalThis.fetch
  readonly internalToken: string
  /** A user's JWT. */
  readonly token: (sub: string, claims?: Readonly<Record<string, unknown>>) => Promise<string>
  /** The Promise client of a user. */
  readonly client: (sub: string) => TaskServiceClient
  readonly core: PlainCore
  /** Where webhooks arrive, whatever their URL. */
  readonly webhooks: {
    readonly received: () => ReadonlyArray<ReceivedWebhook>
    readonly answerWith: (answer: WebhookAnswer) => void
  }
  /** Lets time pass: `"24 hours"`, `"90 seconds"`, or milliseconds. */
  readonly advance: (duration: Duration.Input) => Promise<void>
  /** The clock's present. */
  readonly now: () => Promise<Date>
  readonly close: () => Promise<void>
}

/** Whatever was begun and needs no time comes to rest. */
const settle = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

export const createTestService = (
  { startAt = beginning, ...options }: TestServiceOptions & { readonly startAt?: string | Date } = {}
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
        fetch: fetch as typeof globalThis.fetch,
        internalToken,
        token: mint,
        client: (sub) => {
          let minted: Promise<string> | undefined
          return new TaskServiceClient({
            baseUrl: url,
            token: () => minted ??= mint(sub),
            fetch: fetch as typeof globalThis.fetch
          })
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
          runtime.runPromise(Effect.andThen(settle, Effect.andThen(TestClock.adjust(duration), settle))),
        now: () => runtime.runPromise(Effect.map(DateTime.now, DateTime.toDate)),
        close: () => runtime.dispose()
      }
    })
  )
}
