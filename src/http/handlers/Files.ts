/** Handlers of files: one multipart field is streamed to the assistant backend. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { AssistantBackend, type FilesNotKept } from "../../services/files/AssistantBackend.ts"
import { Api } from "../contract/Api.ts"
import { BadGateway, NotFound, TooManyRequests, ValidationFailed } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { unauthorized } from "./Authorization.ts"
import { Uploads } from "./Uploads.ts"

const backendErrors = {
  FilesNotKept: ({ message }: FilesNotKept) => Effect.fail(new NotFound({ message, code: "files_not_kept" })),
  BackendUnauthorized: () => Effect.fail(unauthorized),
  BackendUnavailable: () =>
    Effect.fail(new BadGateway({ message: "The assistant backend did not respond as expected." }))
}

export const layer = HttpApiBuilder.group(
  Api,
  "files",
  Effect.fn(function*(handlers) {
    const backend = yield* AssistantBackend
    const { upload } = yield* Uploads

    return handlers
      .handleRaw(
        "upload",
        ({ request }) =>
          Effect.flatMap(CurrentCaller, (caller) => upload(caller, request)).pipe(
            Effect.map(({ file, type }) => HttpServerResponse.jsonUnsafe({ type, file }, { status: 201 })),
            Effect.catchTags({
              NoSlotLeft: ({ maximum }) =>
                Effect.fail(
                  new TooManyRequests({
                    message: `Too many uploads at a time. The maximum is ${maximum}.`,
                    code: "too_many_uploads"
                  })
                ),
              FileRefused: ({ errors, message }) =>
                Effect.fail(new ValidationFailed({ message, errors, code: "file_refused" })),
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
