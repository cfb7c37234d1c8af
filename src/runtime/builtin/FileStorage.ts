/** The demo backend's files: one folder each, under a name of its own that nothing from outside can steer. */
import { Effect, FileSystem, Option, Path, Predicate, Ref, Stream } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { HttpServerRequest, HttpServerResponse, HttpStaticServer, Multipart } from "effect/http"
import * as Limits from "../../domain/Limits.ts"
import type { JsonObject } from "../../domain/OpaqueJson.ts"

export type FileStorage = Effect.Success<ReturnType<typeof make>>

/** Bytes of a file that its facts are told from. */
const describedBytes = 16 * 1024 * 1024

/** The parser counts some bytes beyond the file's own; the exact bound is held by the gateway. */
const slackBytes = 1024 * 1024

const safeName = (name: string): string =>
  name.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "_").replace(/^\.+/, "").slice(-100) || "file"

const invalid = (message: string) =>
  HttpServerResponse.jsonUnsafe({ message, errors: { file: [message] } }, { status: 422 })

const textFacts = (mimeType: string, bytes: Uint8Array): string => {
  if (!/^(text\/|application\/(json|xml|javascript))/.test(mimeType)) return ""
  const content = new TextDecoder().decode(bytes)
  const words = content.split(/\s+/).filter((word) => word !== "").length
  return `, ${content.split("\n").length} lines, ${words} words`
}

export const make = Effect.fnUntraced(function*(root: string) {
  const files = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const random = yield* SecureRandom.SecureRandom
  const digest = yield* Digest.Digest
  yield* files.makeDirectory(root, { recursive: true })

  const store = Effect.fnUntraced(function*(part: Multipart.File) {
    const id = yield* random.uuidV4()
    const relative = `${id}/${safeName(part.name)}`
    yield* files.makeDirectory(paths.join(root, id))
    yield* Stream.run(part.content, files.sink(paths.join(root, relative))).pipe(
      // An upload that breaks off leaves nothing behind.
      Effect.onError(() => Effect.ignore(files.remove(paths.join(root, id), { recursive: true })))
    )
    return { id, name: part.name, mime_type: part.contentType, provider_data: { path: relative } }
  })

  /** `POST /files`: one multipart field `file`, streamed to disk. */
  const upload = Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const stored = yield* Ref.make<Option.Option<JsonObject>>(Option.none())
    yield* Stream.runForEach(request.multipartStream, (part) =>
      Multipart.isFile(part) && part.key === "file"
        ? Effect.flatMap(store(part), (file) => Ref.set(stored, Option.some(file)))
        : Effect.void)
    return Option.match(yield* Ref.get(stored), {
      onNone: () => invalid("The field file is required"),
      onSome: (file) => HttpServerResponse.jsonUnsafe(file, { status: 201 })
    })
  }).pipe(
    Effect.provideContext(
      // A file of JSON is a file, although Effect takes such parts for fields unless told otherwise.
      Multipart.limitsServices({ maxParts: 10, maxFileSize: Limits.fileBytes + slackBytes, fieldMimeTypes: [] })
    ),
    Effect.catchTag("MultipartError", (error) => Effect.succeed(invalid(error.reason._tag))),
    Effect.orDie
  )

  /** Tells a file's name, type, size and digest, and of a text its lines and words. */
  const describe = Effect.fnUntraced(
    function*(file: JsonObject) {
      const { mime_type, name, provider_data } = file
      const relative = Predicate.isObject(provider_data) ? provider_data["path"] : undefined
      const target = paths.resolve(root, Predicate.isString(relative) ? relative : ".")
      if (!target.startsWith(root + paths.sep)) return `${String(name)}: not in storage`
      const info = yield* files.stat(target)
      if (info.size > BigInt(describedBytes)) return `${String(name)}: ${String(mime_type)}, ${info.size} bytes`
      const bytes = yield* files.readFile(target)
      const sha256 = yield* digest.digestHex(Digest.sha256, bytes)
      const facts = textFacts(String(mime_type), bytes)
      return `${String(name)}: ${String(mime_type)}, ${bytes.length} bytes${facts}, sha256 ${sha256}`
    },
    (effect, file) => Effect.orElseSucceed(effect, () => `${String(file["name"])}: not in storage`)
  )

  return {
    upload,
    describe,
    /** SPEC "GET /api/storage/base": downloads need no token. */
    publicRoutes: HttpStaticServer.layer({ root, prefix: "/storage" })
  }
})
