/** SPEC "Limits", file formats: told by a name's extension, and by the first bytes where the format has any. */

type Signature = (head: Uint8Array) => boolean

/** How many first bytes the signatures look at. */
export const signatureBytes = 16

const at = (offset: number, ...bytes: ReadonlyArray<number>): Signature => (head) =>
  bytes.every((byte, index) => head[offset + index] === byte)

const ascii = (offset: number, text: string): Signature =>
  at(offset, ...Array.from(text, (character) => character.charCodeAt(0)))

const every = (...all: ReadonlyArray<Signature>): Signature => (head) => all.every((signature) => signature(head))
const some = (...any: ReadonlyArray<Signature>): Signature => (head) => any.some((signature) => signature(head))

const anything: Signature = () => true
const zip = at(0, 0x50, 0x4b)
const matroska = at(0, 0x1a, 0x45, 0xdf, 0xa3)
const mp4 = ascii(4, "ftyp")
/** An MPEG audio frame begins with eleven set bits. */
const mpegFrame: Signature = (head) => head[0] === 0xff && ((head[1] ?? 0) & 0xe0) === 0xe0

const signatures: Readonly<Record<string, Signature>> = {
  png: at(0, 0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
  jpg: at(0, 0xff, 0xd8, 0xff),
  webp: every(ascii(0, "RIFF"), ascii(8, "WEBP")),
  gif: some(ascii(0, "GIF87a"), ascii(0, "GIF89a")),
  txt: anything,
  pdf: ascii(0, "%PDF-"),
  json: anything,
  js: anything,
  css: anything,
  html: anything,
  csv: anything,
  xml: anything,
  docx: zip,
  xls: at(0, 0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1),
  xlsx: zip,
  mp3: some(ascii(0, "ID3"), mpegFrame),
  wav: every(ascii(0, "RIFF"), ascii(8, "WAVE")),
  ogg: ascii(0, "OggS"),
  m4a: mp4,
  webm: matroska,
  mp4,
  mkv: matroska
}

export const extensions: ReadonlyArray<string> = Object.keys(signatures)

/** The format that a file's name promises, in lower case; undefined when it is none of SPEC's. */
export const formatOf = (name: string): string | undefined => {
  const extension = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase()
  return extension !== undefined && Object.hasOwn(signatures, extension) ? extension : undefined
}

/** Whether a file that begins with `head` may be of the format. */
export const isPlausible = (format: string, head: Uint8Array): boolean => signatures[format]?.(head) === true
