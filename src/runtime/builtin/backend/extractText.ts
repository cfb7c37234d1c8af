/**
 * The worker thread of `FileReader`: converts one file to text and ends. It enforces no limits itself; `FileReader` bounds its
 * heap, buffers and time.
 */
import { readFileSync } from "node:fs"
import { parentPort, workerData } from "node:worker_threads"

export interface Extraction {
  readonly path: string
  readonly format: string
  readonly offset: number
  readonly characters: number
}

export type Extracted = { readonly text: string; readonly total: number } | { readonly problem: string }

/** Maximum rows of a sheet that are read. */
const maxRows = 20_000

/** Libraries are loaded only when a file needs them. */
const pdf = (bytes: Buffer) =>
  import("unpdf").then(({ extractText, getDocumentProxy }) =>
    getDocumentProxy(new Uint8Array(bytes))
      .then((document) => extractText(document, { mergePages: false }))
      .then(({ text }) => text.map((page, index) => `--- page ${index + 1} ---\n${page}`).join("\n\n"))
  )

const docx = (buffer: Buffer) =>
  import("mammoth").then(({ default: mammoth }) => mammoth.extractRawText({ buffer })).then(({ value }) => value)

const sheets = (bytes: Uint8Array) =>
  import("@e965/xlsx").then(({ read, utils }) => {
    const book = read(bytes, { dense: true, sheetRows: maxRows, cellFormula: false, cellHTML: false })
    return book.SheetNames
      .map((name) => `--- sheet ${name} ---\n${utils.sheet_to_csv(book.Sheets[name]!, { blankrows: false })}`)
      .join("\n\n")
  })

const plain = (bytes: Uint8Array) =>
  new TextDecoder(bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : "utf-8").decode(bytes)

const readers: Readonly<Record<string, (bytes: Buffer) => Promise<string>>> = { pdf, docx, xls: sheets, xlsx: sheets }

/** A part of a text, without the first half of a surrogate pair at its end: the next part begins with the whole pair. */
const slice = (text: string, start: number, end: number) => {
  const part = text.slice(start, end)
  return end < text.length && /[\ud800-\udbff]$/.test(part) ? part.slice(0, -1) : part
}

const { characters, format, offset, path } = workerData as Extraction
const extracted = await Promise.resolve(readFileSync(path)).then(readers[format] ?? plain).then(
  (text): Extracted => ({ text: slice(text, offset, offset + characters), total: text.length }),
  (error): Extracted => ({ problem: error instanceof Error ? error.message : String(error) })
)
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window
parentPort?.postMessage(extracted)
