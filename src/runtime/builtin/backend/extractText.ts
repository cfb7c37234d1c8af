/**
 * The process of `FileReader`: converts one file, its standard input, to text, writes the result and ends. It enforces no limits
 * itself.
 */
import { readFileSync, writeSync } from "node:fs"

export interface Extraction {
  readonly format: string
  readonly offset: number
  readonly characters: number
}

/** The descriptor of the result: libraries print about a file to the standard output. */
const resultDescriptor = 3

/** Maximum rows of a sheet that are read. */
const maxRows = 20_000

/** Maximum characters of what a library says about a file. */
const problemCharacters = 500

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

// `FileReader` starts this process with it.
const { characters, format, offset } = JSON.parse(process.argv[2] ?? "") as Extraction
const extracted = await Promise.resolve(readFileSync(0)).then(readers[format] ?? plain).then(
  (text) => ({ text: slice(text, offset, offset + characters), total: text.length }),
  (error) => ({ problem: String(error).slice(0, problemCharacters) })
)
const result = Buffer.from(JSON.stringify(extracted))
for (let at = 0; at < result.length;) at += writeSync(resultDescriptor, result, at)
process.exit()
