/** Checks what a new task needs, and uploads the files that its request contains. */
import { Effect } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import type { InputItem } from "../../domain/TaskRequest.ts"
import type { RequestKey } from "../../services/store/tasks/TaskStore.ts"
import { maxFiles } from "../facades/Base64Files.ts"
import * as Models from "../facades/Models.ts"
import type { FacadeModel } from "../facades/Settings.ts"
import { Uploads } from "../handlers/Uploads.ts"
import * as Conversation from "./Conversation.ts"
import { type Failure, invalid } from "./Errors.ts"
import * as InlineFile from "./InlineFile.ts"
import * as Items from "./Items.ts"
import type { CreateResponse } from "./Request.ts"

export interface Creation {
  readonly caller: Caller
  readonly request: CreateResponse
  readonly key: RequestKey | undefined
}

/** A creation whose files are uploaded. */
export interface Prepared extends Creation {
  readonly model: FacadeModel
}

export const make = Effect.gen(function*() {
  const models = yield* Models.make
  const { store } = yield* Uploads

  const upload = (
    caller: Caller,
    file: InlineFile.InlineFile
  ): Effect.Effect<readonly [InlineFile.InlineFile, InputItem], Failure> =>
    store(caller, { name: file.name, mimeType: file.mimeType, content: InlineFile.contentOf(file) }).pipe(
      Effect.map((item) => [file, item] as const),
      Effect.catchTag("FileRefused", ({ message }) => Effect.fail(invalid(file.param, `${file.name}: ${message}`)))
    )

  return Effect.fnUntraced(function*(creation: Creation) {
    const { caller, request } = creation
    const { conversation } = request
    const model = yield* models.find(caller, request.model)
    const orphan = Conversation.outputWithoutCall(conversation.history)
    if (orphan !== undefined) {
      const call = orphan.id.slice(0, 64)
      const message =
        `No tool call found for function call output with call_id ${call}. Send the function_call in front of it.`
      return yield* invalid("input", message)
    }
    const files = Items.inlineFilesOf(conversation)
    if (files.length > maxFiles) {
      const most = `At most ${maxFiles} files may be data URLs.`
      return yield* invalid("input", `${most} Upload files to /v1/files, and pass their file_id.`)
    }
    const uploaded = new Map(yield* Effect.forEach(files, (file) => upload(caller, file)))
    const prepared: Prepared = {
      ...creation,
      model,
      request: { ...request, conversation: Items.withFiles(conversation, uploaded) }
    }
    return prepared
  })
})
