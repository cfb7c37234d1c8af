/** The test kit for tests without Effect: a `TestService` whose clock moves with `advance`. */
import { DateTime, type Duration, Effect, Layer, Logger, ManagedRuntime } from "effect"
import { TestClock } from "effect/testing"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import type { Behaviour } from "./TestCore.ts"
import { TestService, type TestServiceOptions } from "./TestService.ts"
import type { WebhookAnswer } from "./TestWebhooks.ts"
import { runPending } from "./webhooksSent.ts"

const defaultStart = "2026-01-01T00:00:00Z"

export interface PlainTestServiceOptions extends TestServiceOptions {
  /** The start of the clock. Default: 2026-01-01T00:00:00Z. */
  readonly startAt?: string | Date
  /** Prints the service's log. Default: false. */
  readonly log?: boolean
}

export const createTestService = (
  { log = false, startAt = defaultStart, ...options }: PlainTestServiceOptions = {}
) => {
  const layer = TestService.layer(options).pipe(
    Layer.provideMerge(Layer.effectDiscard(TestClock.setTime(DateTime.makeUnsafe(startAt).epochMilliseconds))),
    Layer.provideMerge([TestClock.layer(), log ? Layer.empty : Logger.layer([])])
  )
  const runtime = ManagedRuntime.make(layer)
  const promised =
    <A extends ReadonlyArray<unknown>, B, E>(call: (...args: A) => Effect.Effect<B, E>) => (...args: A): Promise<B> =>
      runtime.runPromise(call(...args))
  return runtime.runPromise(
    Effect.map(TestService, ({ core, fetch, internalToken, settled, token, url, webhooks }) => {
      const mint = promised(token)
      return {
        /** Base URL; pass it to a client together with `fetch`. */
        url,
        fetch,
        internalToken,
        /** Mints a user's JWT. */
        token: mint,
        /** The Promise client for a user. */
        client: (sub: string) => {
          let minted: Promise<string> | undefined
          return new TaskServiceClient({ baseUrl: url, token: () => minted ??= mint(sub), fetch })
        },
        /** `TestCore` with Promises instead of Effects. */
        core: {
          behave: (behaviour: Behaviour) => runtime.runSync(core.behave(behaviour)),
          limit: (room: number) => runtime.runSync(core.limit(room)),
          runs: () => runtime.runSync(core.runs),
          stops: () => runtime.runSync(core.stops),
          runOf: promised(core.runOf),
          nextRun: () => runtime.runPromise(core.nextRun),
          processing: promised(core.processing),
          progress: promised(core.progress),
          interrupt: promised(core.interrupt),
          complete: promised(core.complete),
          fail: promised(core.fail)
        },
        /** Receives all webhooks, whatever their URL. */
        webhooks: {
          received: () => runtime.runSync(webhooks.received),
          answerWith: (answer: WebhookAnswer | ReadonlyArray<WebhookAnswer>) =>
            runtime.runSync(webhooks.answerWith(answer))
        },
        /** Advances the clock by `"24 hours"`, `"90 seconds"`, or a number of milliseconds. */
        advance: (duration: Duration.Input) =>
          runtime.runPromise(runPending.pipe(
            Effect.andThen(TestClock.adjust(duration)),
            Effect.andThen(runPending),
            Effect.andThen(settled)
          )),
        /** The current time of the clock. */
        now: () => runtime.runPromise(Effect.map(DateTime.now, DateTime.toDate)),
        close: () => runtime.dispose()
      }
    })
  )
}

export type PlainTestService = Awaited<ReturnType<typeof createTestService>>
export type PlainCore = PlainTestService["core"]
