/** The tools that the built-in backend runs for a model: reading attached files, and generating images. */
import { Effect, Schema, Stream } from "effect"
import { Tool } from "effect/ai"
import { HttpClient } from "effect/http"
import { imageFormatOf } from "../../../domain/FileFormat.ts"
import type { JsonObject } from "../../../domain/json/OpaqueJson.ts"
import { type OwnTool, ToolFailed } from "./Agent.ts"
import type { LoadImage } from "./Conversation.ts"
import type { FileReader } from "./FileReader.ts"
import type { FileStorage, FoundFile } from "./FileStorage.ts"
import * as OpenAiMedia from "./OpenAiMedia.ts"
import type { Endpoint } from "./OpenAiModel.ts"

/** Characters of a file that one call returns. */
const charactersPerRead = 40_000

/** Maximum bytes of an image that is sent to a model. */
const maxImageBytes = 10 * 1024 * 1024

const imageTypes: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  webp: "image/webp",
  gif: "image/gif"
}

/** Prepares a tool once: it costs more to derive the JSON Schema and the decoder of its parameters than to call it. */
const own = <S extends Schema.Codec<any, any>>(name: string, description: string, parameters: S) => {
  const tool = Tool.dynamic(name, { description, parameters: Tool.getJsonSchemaFromSchema(parameters) })
  const decode = Schema.decodeEffect(parameters)
  return (run: (parameters: S["Type"]) => ReturnType<OwnTool["run"]>): OwnTool => ({
    tool,
    run: (given) => Effect.flatMap(decode(given), run)
  })
}

const ownReadFile = own(
  "read_file",
  "Reads a file that the user attached: text, PDF, Word and Excel as text, an image as an image.",
  Schema.Struct({
    file_id: Schema.String.annotate({ description: "The file_id of an attached file." }),
    offset: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))).annotate({
      description: "The character at which to continue, when an earlier call did not return the whole file."
    })
  })
)

const ownGenerateImage = own(
  "generate_image",
  "Generates an image. The user sees it next to your answer.",
  Schema.Struct({
    prompt: Schema.NonEmptyString.annotate({ description: "A complete description of the image." })
  })
)

/** The media type of an image that can be sent to a model; undefined for other files. */
const imageTypeOf = ({ format = "" }: FoundFile) => imageTypes[format]

export const readFile = (storage: FileStorage, reader: FileReader, user: string): OwnTool =>
  ownReadFile(
    Effect.fnUntraced(function*({ file_id: id, offset = 0 }) {
      const file = yield* storage.find(id)
      const { name, size } = file
      const mime_type = imageTypeOf(file)
      if (mime_type === undefined) {
        const { text, total } = yield* reader.read(file, offset, charactersPerRead, user)
        const end = offset + text.length
        const more = end < total ? `\n\n[${end} of ${total} characters; continue with offset ${end}]` : ""
        return { content: text + more }
      }
      if (size > maxImageBytes) {
        return yield* new ToolFailed({ message: `The image is larger than ${maxImageBytes / 1024 / 1024} MB.` })
      }
      const words = { type: "text", text: `The image ${name} follows.` }
      return { content: [words, { type: "image", file: { id, name, mime_type } }] }
    })
  )

export const loadImage = (storage: FileStorage): LoadImage =>
  Effect.fnUntraced(function*({ id }) {
    const file = yield* storage.find(id)
    const mediaType = imageTypeOf(file)
    if (mediaType === undefined || file.size > maxImageBytes) return undefined
    return { type: "file" as const, mediaType, data: Buffer.from(yield* storage.read(file)).toString("base64") }
  }, Effect.orElseSucceed(() => undefined))

/** Stores a generated image for a user. Returns an item for the turn's `output`. */
const keepImage = Effect.fnUntraced(
  function*(storage: FileStorage, user: string, name: string, bytes: Uint8Array) {
    const format = imageFormatOf(bytes)
    if (format === undefined) return yield* new ToolFailed({ message: "The result is not an image." })
    const file = yield* storage.store(user, `${name}.${format}`, imageTypes[format] ?? "", Stream.make(bytes))
    const item: JsonObject = { type: "image", file }
    return item
  }
)

export const generateImage = (
  storage: FileStorage,
  user: string,
  http: HttpClient.HttpClient,
  endpoint: Endpoint
): OwnTool =>
  ownGenerateImage(
    ({ prompt }) =>
      OpenAiMedia.generateImage(endpoint, prompt).pipe(
        Effect.provideService(HttpClient.HttpClient, http),
        Effect.flatMap((bytes) => keepImage(storage, user, "image", bytes)),
        Effect.tapError((error) => Effect.logWarning("generating an image failed", error)),
        Effect.map((output) => ({ content: "The image was made and is shown to the user.", output })),
        Effect.mapError((error) =>
          new ToolFailed({ message: error._tag === "StorageFull" ? error.message : "The image could not be made." })
        )
      )
  )
