/** Public shapes of files (SPEC "Uploaded file object", "GET /api/storage/base"). */
import { Schema } from "effect"

export const UploadedFileView = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Struct({
    id: Schema.String,
    name: Schema.String,
    mime_type: Schema.String,
    provider_data: Schema.Struct({ path: Schema.String })
  })
}).annotate({ identifier: "UploadedFile" })

export const StorageBaseView = Schema.Struct({ url: Schema.String }).annotate({ identifier: "StorageBase" })
