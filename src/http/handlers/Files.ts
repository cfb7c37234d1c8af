/** `contract/Api`'s files: one multipart field, streamed through to the assistant backend. */
import { Effect, Option, Ref, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse, Multipart } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Limits from "../../domain/Limits.ts"
import { AssistantBackend, refuseFile, tooLarge, type UploadedFile } from "../../services/AssistantBackend.ts"
import { Api } from "../contract/Api.ts"
import { BadGateway, ValidationFailed } from "../contract/Errors.ts"
import { CurrentCaller } from "../contract/Middleware.ts"
import { unauthorized } from "./Authorization.ts"

const limits = Multipart.limitsServices({
  maxParts: 16,
  maxFieldSize: 64 * 1024,
  // The exact bound is the service's to hold.
  maxFileSize: Limits.fileBytes + 1024 * 1024
})

const describe = ({ reason }: Multipart.MultipartError) =>
  reason._tag === "FileTooLarge" || reason._tag === "BodyTooLarge"
    ? tooLarge
    : refuseFile("The request must be multipart/form-data with one field, file")

const backendErrors = {
  BackendUnauthorized: () => Effect.fail(unauthorized),
  BackendUnavailable: () =>
    Effect.fail(new BadGateway({ message: "The assistant backend did not answer as expected." }))
}

export const layer = HttpApiBuilder.group(
  Api,
  "files",
  Effect.fn(function*(handlers) {
    const backend = yield* AssistantBackend

    const upload = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { token } = yield* CurrentCaller
      const uploaded = yield* Ref.make(Option.none<UploadedFile>())
      yield* Stream.runForEach(
        request.multipartStream,
        Effect.fnUntraced(function*(part) {
          if (!Multipart.isFile(part) || part.key !== "file") {
            return Multipart.isFile(part) ? yield* Stream.runDrain(part.content) : undefined
          }
          if (Option.isSome(yield* Ref.get(uploaded))) return yield* refuseFile("Only one file may be sent at a time")
          const { content, contentType: mimeType, name } = part
          const file = yield* backend.upload(token, { name, mimeType, content })
          yield* Ref.set(uploaded, Option.some(file))
        })
      )
      return yield* Effect.fromOption(yield* Ref.get(uploaded)).pipe(
        Effect.mapError(() => refuseFile("This field is required"))
      )
    })

    return handlers
      .handleRaw("upload", ({ request }) =>
        upload(request).pipe(
          Effect.provideContext(limits),
          Effect.map((file) => HttpServerResponse.jsonUnsafe(file, { status: 201 })),
          Effect.catchTag("MultipartError", (error) => Effect.fail(describe(error))),
          Effect.catchTag(
            "FileRefused",
            ({ errors, message }) => Effect.fail(new ValidationFailed({ message, errors }))
          ),
          Effect.catchTags(backendErrors)
        ))
      .handleRaw("storageBase", () =>
        Effect.flatMap(CurrentCaller, ({ token }) => backend.storageBase(token)).pipe(
          Effect.map((url) => HttpServerResponse.jsonUnsafe({ url })),
          Effect.catchTags(backendErrors)
        ))
  })
)
