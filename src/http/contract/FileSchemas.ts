/** Public schemas of files. */
import { Schema } from "effect"

export const UploadedFileView = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Struct({
    id: Schema.String.annotate({ description: "Always a string." }),
    name: Schema.String.annotate({ description: "File name." }),
    mime_type: Schema.String.annotate({ description: "Media type." }),
    provider_data: Schema.Struct({
      path: Schema.String.annotate({ description: "Storage-relative path of the file." })
    }).annotate({ description: "Location of the file in the storage." })
  }).annotate({ description: "The file." })
}).annotate({ identifier: "UploadedFile", description: "An uploaded file; it can be placed into `input` as it is." })

export const StorageBaseView = Schema.Struct({
  url: Schema.String.annotate({
    description: "Public base URL of the storage, without a trailing slash.",
    format: "uri"
  })
}).annotate({
  identifier: "StorageBase",
  description: "The download link of a file is `url`, then `/`, then its `provider_data.path`."
})
