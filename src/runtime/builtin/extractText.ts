/**
 * The worker of `FileReader`: turns one file into text and ends. It holds no bound itself; whoever starts it gives it a
 * heap, watches its buffers and ends it in time.
 */
import { read, utils } from "@e965/xlsx"
import mammoth from "mammoth"
import { readFileSync } from "node:fs"
import { parentPort, workerData } from "node:worker_threads"
import { extractText, getDocumentProxy } from "unpdf"

export interface Extraction {
  readonly path: string
  readonly format: string
  readonly offset: number
  readonly characters: number
}

export type Extracted = { readonly text: string; readonly total: number } | { readonly problem: string }

/** Rows of a sheet that are read. */
const maxRows = 20_000

const pdf = async (bytes: Uint8Array) => {
  const { text } = await extractText(await getDocumentProxy(bytes), { mergePages: false })
  return text.map((page, index) => `--- page ${index + 1} ---\n${page}`).join("\n\n")
}

const sheets = (bytes: Uint8Array) => {
  const { SheetNames, Sheets } = read(bytes, { dense: true, sheetRows: maxRows, cellFormula: false, cellHTML: false })
  return SheetNames.map((name) => `--- sheet ${name} ---\n${utils.sheet_to_csv(Sheets[name]!, { blankrows: false })}`)
    .join("\n\n")
}

const plain = (bytes: Uint8Array) =>
  new TextDecoder(bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : "utf-8").decode(bytes)

const extract = async ({ characters, format, offset, path }: Extraction): Promise<Extracted> => {
  const bytes = readFileSync(path)
  const text = format === "pdf"
    ? await pdf(new Uint8Array(bytes))
    : format === "docx"
    ? (await mammoth.extractRawText({ buffer: bytes })).value
    : /^xlsx?$/.test(format)
    ? sheets(bytes)
    : plain(bytes)
  return { text: text.slice(offset, offset + characters), total: text.length }
}

const extracted = await extract(workerData as Extraction).catch((error): Extracted => ({
  problem: error instanceof Error ? error.message : String(error)
}))
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port, not a window
parentPort?.postMessage(extracted)
