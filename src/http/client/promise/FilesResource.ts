/** `client.files`: uploads, and where files are downloaded from. */
import type { CallOptions, Transport } from "./Transport.ts"
import type { StorageBase, UploadedFile } from "./Types.ts"
import { type FileContent, upload, type UploadOptions } from "./Upload.ts"

/** Milliseconds that the storage's address is believed. */
const baseTtl = 60_000

/** A file as an upload, an input item or an item of `turn.output` has it, or its storage path. */
export type StoredFile = string | {
  readonly file: { readonly provider_data?: { readonly path?: string | null } | null }
}

export class FilesResource {
  readonly #transport: Transport
  #base: { readonly url: string; readonly until: number } | undefined

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Uploads a file; what it resolves to goes into `input` as it is. A stream is sent as it is read, and not retried. */
  upload(content: FileContent, options: UploadOptions = {}): Promise<UploadedFile> {
    return upload(this.#transport, content, options)
  }

  /** The link that downloads a file, without a token. */
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
