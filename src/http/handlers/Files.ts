/** Handlers of files: one multipart field is streamed to the assistant backend. */
import { Cause, Channel, Effect, Pull, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Limits from "../../domain/Limits.ts"
import { AssistantBackend, tooLarge } from "../../services/files/AssistantBackend.ts"
import * as UserSlots from "../../services/limits/UserSlots.ts"
import * as IdleTimeout from "../../services/timing/IdleTimeout.ts"
import { Timeouts } from "../../services/timing/Timeouts.ts"
import { Api } from "../contract/Api.ts"
import { BadGateway, RequestTimeout, TooManyRequests, ValidationFailed } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { unauthorized } from "./Authorization.ts"
import { requirePlain } from "./body/BodyReader.ts"
import * as UploadForm from "./body/UploadForm.ts"
import { CurrentToken } from "./CurrentToken.ts"

const stalled = new RequestTimeout({ message: "The upload stalled: no data arrived in time." })

const backendErrors = {
  BackendUnauthorized: () => Effect.fail(unauthorized),
  BackendUnavailable: () =>
    Effect.fail(new BadGateway({ message: "The assistant backend did not respond as expected." }))
}

/** Content that ends only if the token is still valid: without the end the backend does not store the file. */
const endingWith = <A, E, E2>(content: Pull.Pull<A, E>, check: Effect.Effect<void, E2>): Pull.Pull<A, E | E2> =>
  Pull.matchEffect(content, {
    onSuccess: Effect.succeed,
    onFailure: Effect.failCause,
    onDone: () => Effect.andThen(check, Cause.done())
  })

export const layer = HttpApiBuilder.group(
  Api,
  "files",
  Effect.fn(function*(handlers) {
    const backend = yield* AssistantBackend
    const slotOf = UserSlots.make(Limits.uploads)

    const upload = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { token } = yield* CurrentCaller
      const { check } = yield* CurrentToken
      yield* requirePlain(request)
      if (Number(request.headers["content-length"]) > UploadForm.maxFormBytes) return yield* tooLarge
      const idle = yield* IdleTimeout.make((yield* Timeouts).uploadIdle)
      const pull = yield* Channel.toPullScoped(Stream.toChannel(request.stream), yield* Effect.scope)
      const source = Effect.suspend(() => {
        idle.begin()
        return Effect.onExit(pull, () => Effect.sync(idle.end))
      })
      return yield* UploadForm.open(request.headers["content-type"] ?? "", source).pipe(
        Effect.flatMap((file) => backend.upload(token, { ...file, content: endingWith(file.content, check) })),
        Effect.tap(check),
        Effect.raceFirst(Effect.andThen(idle.exceeded, Effect.fail(stalled)))
      )
    }, Effect.scoped)

    return handlers
      .handleRaw(
        "upload",
        ({ request }) =>
          Effect.flatMap(CurrentCaller, ({ principal }) => slotOf(principal.sub)(upload(request))).pipe(
            Effect.map((file) => HttpServerResponse.jsonUnsafe(file, { status: 201 })),
            Effect.catchTags({
              NoSlotLeft: ({ maximum }) =>
                Effect.fail(new TooManyRequests({ message: `Too many uploads at a time. The maximum is ${maximum}.` })),
              FileRefused: ({ errors, message }) => Effect.fail(new ValidationFailed({ message, errors })),
              BackendRefused: ({ body }) =>
                Effect.succeed(HttpServerResponse.text(body, { status: 422, contentType: "application/json" })),
              ...backendErrors
            })
          )
      )
      .handle("storageBase", () =>
        Effect.flatMap(CurrentCaller, ({ token }) => backend.storageBase(token)).pipe(
          Effect.map((url) => ({ url })),
          Effect.catchTags(backendErrors)
        ))
  })
)
