/** Multipart forms of uploads, and a client that posts them. */
import { mint, type Service } from "./Service.ts"

interface Part {
  readonly disposition?: string
  readonly type?: string
  readonly content?: Uint8Array | string
}

const contentType = "multipart/form-data; boundary=x-boundary"

export const formOf = (parts: ReadonlyArray<Part>) =>
  Buffer.concat([
    ...parts.flatMap((
      { content = "text", disposition = "form-data; name=\"file\"; filename=\"a.txt\"", type = "" }
    ) => [
      Buffer.from(`--x-boundary\r\nContent-Disposition: ${disposition}\r\n`),
      Buffer.from(type === "" ? "\r\n" : `Content-Type: ${type}\r\n\r\n`),
      Buffer.from(content),
      Buffer.from("\r\n")
    ]),
    Buffer.from("--x-boundary--\r\n")
  ])

export const named = (filename: string, content: Uint8Array | string = "text") =>
  formOf([{ disposition: `form-data; name="file"; ${filename}`, content }])

export const partHead = "--x-boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n"
export const formTail = "\r\n--x-boundary--\r\n"

const token = await mint("uploader")
export const authorization = `Bearer ${token}`
export const headersOf = { authorization, "content-type": contentType }

export const postForm = async ({ url }: Service, form: Buffer, type = contentType) => {
  const response = await fetch(`${url}/api/files`, {
    method: "POST",
    headers: { authorization, "content-type": type },
    body: new Uint8Array(form)
  })
  const text = await response.text()
  return { status: response.status, text, body: JSON.parse(text) }
}

/** The head of a request whose form follows. */
export const headOf = (length: number, headers = "") =>
  `POST /api/files HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\n`
  + `Content-Type: ${contentType}\r\nContent-Length: ${length}\r\n${headers}\r\n`
