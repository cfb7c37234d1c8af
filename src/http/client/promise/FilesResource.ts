/** `client.files`: uploads and download links. */
import { mediaTypeOf } from "../../../domain/MediaTypes.ts"
import { fromResponse } from "./ApiErrors.ts"
import { aborted, type CallOptions, randomId, type Transport } from "./Transport.ts"
import type { StorageBase, UploadedFile } from "./Types.ts"

export type FileContent =
  | Blob
  | Uint8Array
  | ArrayBuffer
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>

export interface UploadOptions {
  /** File name; its extension determines the format, or `type` if it has none. Required unless there is a type or the content is a `File`. */
  readonly name?: string | undefined
  /** Media type. By default that of the content, or else of the name's extension. */
  readonly type?: string | undefined
  /** Called with the number of the content's bytes that were sent. `total` is their number, or null when it is unknown. */
  readonly onProgress?: ((progress: { readonly loaded: number; readonly total: number | null }) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

const uploadPath = "/api/files"

/** Bytes, or null when the size is unknown. */
const sizeOf = (content: FileContent) =>
  content instanceof Blob
    ? content.size
    : content instanceof Uint8Array || content instanceof ArrayBuffer
    ? content.byteLength
    : null

/** Bytes: what is sent before the progress is reported. */
const chunkSize = 65_536

const chunksOf = async function*(content: FileContent): AsyncGenerator<Uint8Array, void, undefined> {
  if (content instanceof ArrayBuffer || content instanceof Uint8Array) {
    const bytes = content instanceof ArrayBuffer ? new Uint8Array(content) : content
    for (let at = 0; at < bytes.length; at += chunkSize) yield bytes.subarray(at, at + chunkSize)
    return
  }
  const stream: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> = content instanceof Blob
    ? content.stream()
    : content
  if (!(stream instanceof ReadableStream)) return yield* stream
  const reader = stream.getReader()
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value
  } finally {
    await reader.cancel().catch(() => {})
  }
}

const toStream = (parts: AsyncGenerator<Uint8Array, void, undefined>) =>
  new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      const { done, value } = await parts.next()
      if (done === true) controller.close()
      else controller.enqueue(value)
    },
    cancel: async () => {
      await parts.return()
    }
  })

const quoted = (name: string) => name.replaceAll(/["\r\n]/g, (char) => encodeURIComponent(char))

/** A multipart form with one file, as a stream with backpressure. */
const formStream = (
  content: FileContent,
  name: string,
  type: string,
  boundary: string,
  onBytes: (count: number) => void
) => {
  const encoder = new TextEncoder()
  const parts = (async function*() {
    yield encoder.encode(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${
        quoted(name)
      }"\r\nContent-Type: ${type}\r\n\r\n`
    )
    for await (const chunk of chunksOf(content)) {
      yield chunk
      onBytes(chunk.byteLength)
    }
    yield encoder.encode(`\r\n--${boundary}--\r\n`)
  })()
  return toStream(parts)
}

/** Browsers report upload progress only through XMLHttpRequest. */
const uploadByXhr = async (
  transport: Transport,
  form: FormData,
  size: number,
  { onProgress, signal }: UploadOptions
) => {
  const headers = await transport.headers()
  return new Promise<UploadedFile>((resolve, reject) => {
    if (signal?.aborted === true) return reject(aborted(signal))
    const request = new XMLHttpRequest()
    const abort = () => request.abort()
    request.open("POST", transport.url(uploadPath))
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
    request.upload.onprogress = ({ loaded, total }) => {
      // Without the form around the content, most of which comes before it.
      const sent = Math.min(size, Math.max(0, loaded - (total - size)))
      onProgress?.({ loaded: sent, total: size })
    }
    request.onload = () => {
      const requestId = request.getResponseHeader("x-request-id")
      const responseHeaders = new Headers(requestId === null ? {} : { "x-request-id": requestId })
      if (request.status >= 300) return reject(fromResponse(request.status, request.responseText, responseHeaders))
      try {
        resolve(JSON.parse(request.responseText))
      } catch (cause) {
        reject(transport.connectionError(cause))
      }
    }
    request.onerror = () => reject(transport.connectionError())
    request.onabort = () => reject(aborted(signal))
    request.onloadend = () => signal?.removeEventListener("abort", abort)
    signal?.addEventListener("abort", abort)
    request.send(form)
  })
}

const isBrowser = () => typeof XMLHttpRequest !== "undefined"

/** Streamed where the platform supports it. */
const upload = async (
  transport: Transport,
  content: FileContent,
  options: UploadOptions
): Promise<UploadedFile> => {
  const { onProgress, signal } = options
  const isFile = typeof File !== "undefined" && content instanceof File
  const declared = options.type ?? (content instanceof Blob && content.type !== "" ? content.type : undefined)
  // The name that `FormData` gives to a `Blob`.
  const name = options.name ?? (isFile ? content.name : declared && "blob")
  if (name === undefined) throw new TypeError("upload requires a file name: { name: \"report.pdf\" }")
  const type = declared ?? mediaTypeOf(name) ?? "application/octet-stream"
  const total = sizeOf(content)

  // Browsers cannot stream a request over HTTP/1.1. They buffer a stream into a Blob, on disk when it is large.
  if (isBrowser()) {
    const whole = content instanceof Blob ? content : await new Response(toStream(chunksOf(content))).blob()
    const form = new FormData()
    form.append("file", new Blob([whole], { type }), name)
    return uploadByXhr(transport, form, whole.size, options)
  }
  let loaded = 0
  const boundary = `form-${randomId()}`
  const body = formStream(content, name, type, boundary, (count) => {
    loaded += count
    onProgress?.({ loaded, total })
  })
  return transport.json<UploadedFile>({
    method: "POST",
    path: uploadPath,
    body,
    isStream: true,
    timeout: Infinity,
    signal,
    headers: { "content-type": `multipart/form-data; boundary=${boundary}` }
  })
}

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
