/**
 * The core's transport on undici's dispatcher: every task is handed over by one such call, and this takes a quarter of
 * the processor time of the general client (`npm run bench`).
 */
import { Agent, type Dispatcher } from "@effect/platform-node/Undici"
import { Duration, Effect, Layer } from "effect"
import { CoreUnavailable } from "../domain/HandOver.ts"
import { callTimeout, type CoreAnswer, CoreTransport } from "../services/CoreTransport.ts"

/** Bytes of an answer that are let through before the call is broken off; nothing in it is read. */
const maxAnswerBytes = 64 * 1024

const connections = 256

const unavailable = (cause: unknown) =>
  new CoreUnavailable({ reason: cause instanceof Error ? cause.message : String(cause), retryAfter: null })

const first = (header: string | ReadonlyArray<string> | undefined) => typeof header === "object" ? header[0] : header

export const layer = Layer.effect(
  CoreTransport,
  Effect.gen(function*() {
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => new Agent({ connections, keepAliveTimeout: 30_000 })),
      (agent) => Effect.promise(() => agent.destroy())
    )

    return CoreTransport.of({
      post: (url, headers, body) =>
        Effect.callback<CoreAnswer, CoreUnavailable>((resume) => {
          const { origin, pathname, search } = new URL(url)
          let controller: Dispatcher.DispatchController | undefined
          let answer: CoreAnswer | undefined
          let received = 0
          const breakOff = (why: string) => controller?.abort(new Error(why))
          const clock = setTimeout(() => {
            breakOff("time-out")
            resume(Effect.fail(unavailable("time-out")))
          }, Duration.toMillis(callTimeout))
          agent.dispatch(
            {
              origin,
              path: pathname + search,
              method: "POST",
              headers: { "content-type": "application/json", ...headers },
              body
            },
            {
              onRequestStart: (started) => {
                controller = started
              },
              onResponseStart: (_, status, answered) => {
                if (status >= 200) answer = { status, retryAfter: first(answered["retry-after"]) }
              },
              onResponseData: (_, chunk) => {
                received += chunk.length
                if (received > maxAnswerBytes) breakOff("the answer is too long")
              },
              onResponseEnd: () => {
                clearTimeout(clock)
                resume(answer === undefined ? Effect.fail(unavailable("no answer")) : Effect.succeed(answer))
              },
              onResponseError: (_, error) => {
                clearTimeout(clock)
                resume(Effect.fail(unavailable(error)))
              }
            }
          )
          return Effect.sync(() => {
            clearTimeout(clock)
            breakOff("no longer wanted")
          })
        })
    })
  })
)
