/** An assistant backend on a real socket that records requests and responds as a test defines. */
import { createHash } from "node:crypto"
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { answerJson, LoopbackServer, type Respond } from "./LoopbackServer.ts"

/** One `POST /files`, complete or not. */
export interface ReceivedUpload {
  readonly headers: IncomingHttpHeaders
  /** The header lines of the part, as soon as they have arrived. */
  head: string
  /** The bytes of the file, without those of the form around it. */
  size: number
  sha256: string
  /** The number of bytes of the request that were read. */
  received: number
  state: "receiving" | "complete" | "aborted"
}

type Script = (request: IncomingMessage, response: ServerResponse, upload: ReceivedUpload) => Promise<void> | void

/** Reads a form of one field to its end; keeps only its head and tail in memory. */
export const readForm = async (request: IncomingMessage, upload: ReceivedUpload) => {
  const boundary = /boundary="?([^";]+)/.exec(request.headers["content-type"] ?? "")?.[1] ?? ""
  const tail = `\r\n--${boundary}--\r\n`
  const hash = createHash("sha256")
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of request as AsyncIterable<Buffer>) {
    upload.received += chunk.length
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    if (upload.head === "") {
      const end = held.indexOf("\r\n\r\n")
      if (end < 0) continue
      upload.head = held.subarray(0, end).toString()
      held = held.subarray(end + 4)
    }
    const safe = held.length - tail.length
    if (safe <= 0) continue
    hash.update(held.subarray(0, safe))
    upload.size += safe
    held = held.subarray(safe)
  }
  if (held.toString() !== tail) throw new Error(`the form does not end as it should: ${held.toString()}`)
  upload.sha256 = hash.digest("hex")
  upload.state = "complete"
}

export const fileName = ({ head }: ReceivedUpload) => /filename="([^"]*)"/.exec(head)?.[1]

/** Accepts the file with a numeric id in the response. */
export const takeFile: Script = async (request, response, upload) => {
  await readForm(request, upload)
  const name = fileName(upload) ?? ""
  const mime_type = /content-type: *(.*)/i.exec(upload.head)?.[1] ?? ""
  answerJson(response, 201, { id: 17, name, mime_type, provider_data: { path: `17/${upload.sha256}` } })
}

export class ScriptedBackend extends LoopbackServer {
  readonly uploads: Array<ReceivedUpload> = []
  /** The sockets of the uploads, in the same order. */
  readonly sockets: Array<Socket> = []
  onUpload: Script = takeFile
  onStorageBase: (response: ServerResponse) => void = (response) => answerJson(response, 200, { url: "http://files/" })

  override respond: Respond = (request, response) => {
    if (request.url === "/storage/base") return this.onStorageBase(response)
    const upload: ReceivedUpload = {
      headers: request.headers,
      head: "",
      size: 0,
      sha256: "",
      received: 0,
      state: "receiving"
    }
    this.uploads.push(upload)
    this.sockets.push(request.socket)
    request.on("error", () => {})
    request.on("close", () => {
      if (!request.complete) upload.state = "aborted"
    })
    void Promise.resolve(this.onUpload(request, response, upload)).catch(() => response.destroy())
  }

  get last(): ReceivedUpload | undefined {
    return this.uploads.at(-1)
  }
}
