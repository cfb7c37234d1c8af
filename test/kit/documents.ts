/** Small documents, valid and hostile, written by hand if none of our libraries writes them. */
import { utils, write } from "@e965/xlsx"
import { crc32, deflateRawSync, deflateSync } from "node:zlib"

/** A ZIP archive with deflated entries. */
const zip = (entries: Readonly<Record<string, Buffer>>): Buffer => {
  const locals: Array<Buffer> = []
  const central: Array<Buffer> = []
  let offset = 0
  for (const [name, data] of Object.entries(entries)) {
    const packed = deflateRawSync(data)
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(8, 4)
    common.writeUInt32LE(crc32(data), 10)
    common.writeUInt32LE(packed.length, 14)
    common.writeUInt32LE(data.length, 18)
    common.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from("PK\x03\x04"), common, Buffer.from(name), packed])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE(offset, 10)
    central.push(Buffer.concat([Buffer.from("PK\x01\x02\x14\0"), common, rest, Buffer.from(name)]))
    locals.push(local)
    offset += local.length
  }
  const directory = Buffer.concat(central)
  const end = Buffer.alloc(22)
  end.write("PK\x05\x06", "latin1")
  end.writeUInt16LE(central.length, 8)
  end.writeUInt16LE(central.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...locals, directory, end])
}

const xml = (text: string) => Buffer.from(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>${text}`)

export const docx = (body: string | Buffer): Buffer =>
  zip({
    "[Content_Types].xml": xml(
      "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">"
        + "<Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>"
        + "<Override PartName=\"/word/document.xml\" ContentType=\"application/vnd.openxmlformats-officedocument."
        + "wordprocessingml.document.main+xml\"/></Types>"
    ),
    "_rels/.rels": xml(
      "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"r\" "
        + "Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" "
        + "Target=\"word/document.xml\"/></Relationships>"
    ),
    "word/document.xml": typeof body === "string"
      ? xml(
        "<w:document xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body><w:p><w:r>"
          + `<w:t>${body}</w:t></w:r></w:p></w:body></w:document>`
      )
      : body
  })

/** A workbook with one sheet, given as XML. */
const xlsx = (sheet: Buffer): Buffer =>
  zip({
    "[Content_Types].xml": xml(
      "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">"
        + "<Override PartName=\"/xl/workbook.xml\" ContentType=\"application/vnd.openxmlformats-officedocument."
        + "spreadsheetml.sheet.main+xml\"/><Override PartName=\"/xl/worksheets/sheet1.xml\" ContentType=\"application/vnd."
        + "openxmlformats-officedocument.spreadsheetml.worksheet+xml\"/></Types>"
    ),
    "xl/workbook.xml": xml(
      "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" xmlns:r=\"http://schemas."
        + "openxmlformats.org/officeDocument/2006/relationships\"><sheets><sheet name=\"S\" sheetId=\"1\" r:id=\"r1\"/>"
        + "</sheets></workbook>"
    ),
    "xl/_rels/workbook.xml.rels": xml(
      "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\"><Relationship Id=\"r1\" "
        + "Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" "
        + "Target=\"worksheets/sheet1.xml\"/></Relationships>"
    ),
    "xl/worksheets/sheet1.xml": sheet
  })

const sheetHead = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\">"

/** A sheet with that many rows of 200 cells. */
export const hugeSheet = (rows: number): Buffer => {
  const cells = Array.from({ length: 200 }, (_, column) => `<c t="n"><v>${column}</v></c>`).join("")
  return xlsx(Buffer.from(`${sheetHead}<sheetData>${`<row>${cells}</row>`.repeat(rows)}</sheetData></worksheet>`))
}

/** A small sheet that declares the maximum dimensions. */
export const wideSheet = (): Buffer =>
  xlsx(Buffer.from(
    `${sheetHead}<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c></row>`
      + "<row r=\"1048576\"><c r=\"XFD1048576\"><v>2</v></c></row></sheetData></worksheet>"
  ))

export const workbook = (bookType: "xlsx" | "biff8", rows: ReadonlyArray<ReadonlyArray<unknown>>): Buffer => {
  const book = utils.book_new()
  utils.book_append_sheet(book, utils.aoa_to_sheet(rows.map((row) => [...row])), "Sales")
  return write(book, { type: "buffer", bookType })
}

/** A PDF of one page, whose content stream is deflated `deflations` times. */
export const pdf = (content: string | Buffer, deflations = 1): Buffer => {
  let stream: Buffer = typeof content === "string"
    ? Buffer.from(`BT /F1 12 Tf 72 720 Td (${content}) Tj ET`)
    : content
  for (let i = 0; i < deflations; i++) stream = deflateSync(stream)
  const filters = Array.from({ length: deflations }, () => "/FlateDecode").join(" ")
  const objects = [
    "<</Type/Catalog/Pages 2 0 R>>",
    "<</Type/Pages/Kids[3 0 R]/Count 1>>",
    "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
    Buffer.concat([
      Buffer.from(`<</Length ${stream.length}/Filter[${filters}]>>\nstream\n`),
      stream,
      Buffer.from("\nendstream")
    ]),
    "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
  ]
  const parts: Array<Buffer> = [Buffer.from("%PDF-1.4\n")]
  const offsets: Array<number> = []
  const length = () => parts.reduce((sum, part) => sum + part.length, 0)
  for (const [index, object] of objects.entries()) {
    offsets.push(length())
    parts.push(Buffer.from(`${index + 1} 0 obj\n`), Buffer.from(object), Buffer.from("\nendobj\n"))
  }
  const start = length()
  const table = offsets.map((offset) => `${String(offset).padStart(10, "0")} 00000 n \n`).join("")
  parts.push(Buffer.from(
    `xref\n0 6\n0000000000 65535 f \n${table}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n${start}\n%%EOF\n`
  ))
  return Buffer.concat(parts)
}

/** A PDF of one page, whose content has one dictionary with that many keys: a parser keeps each as an object. */
export const wideDictionary = (keys: number): Buffer =>
  pdf(Buffer.from(`/X <<${Array.from({ length: keys }, (_, key) => `/${key.toString(36)} 1`).join("")}>> BDC EMC`))
