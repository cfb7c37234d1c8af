/** `client.files`: uploads and download links. */
import type { CallOptions, Transport } from "./Transport.ts"
import type { StorageBase, UploadedFile } from "./Types.ts"
import { type FileContent, upload, type UploadOptions } from "./Upload.ts"

/** Milliseconds for which the storage's base URL is cached. */
const baseTtl = 60_000

/** An uploaded file, an input item, an item of `turn.output`, or a storage path. */
export type StoredFile = string | {
  readonly file: { readonly provider_data?: { readonly path?: string | null } | null }
}

export class FilesResource {
  readonly #transport: Transport
  #base: { readonly url: string; readonly until: number } | undefined

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Uploads a file. The result is an item for a task's `input`. The content is streamed, so a failure is not retried. */
  upload(content: FileContent, options: UploadOptions = {}): Promise<UploadedFile> {
    return upload(this.#transport, content, options)
  }

  /** The download link of a file. It needs no token. */
  async url(file: StoredFile, options: CallOptions = {}): Promise<string> {
    const path = typeof file === "string" ? file : file.file.provider_data?.path
    if (path === undefined || path === null) throw new TypeError("The file has no provider_data.path")
    if (this.#base === undefined || this.#base.until < performance.now()) {
      const { url } = await this.#transport.json<StorageBase>({ ...options, method: "GET", path: "/api/storage/base" })
      this.#base = { url, until: performance.now() + baseTtl }
    }
    return `${this.#base.url}/${path}`
  }
}
