/**
 * Accepted file formats. A file is rejected by its extension or by a declared type that is known to be of another kind; a
 * name without an extension has the format of the declared type. Its content is a reason only when it is certainly a
 * program, or a page or script with another extension: no list of signatures covers all valid beginnings of a format
 * (BOMs, printer headers, padding, old versions, encryption).
 */
import { mediaTypeOf, mediaTypes } from "./MediaTypes.ts"

const text = /^text\/|[+/](x-)?(json|ndjson|xml|javascript|ecmascript|css|csv)$|^application\/(vnd\.ms-)?excel$/
const image = /^image\/(?!svg)/
const pdf = /[/.-](pdf|acrobat)$/
/** Encrypted and old documents of Word and Excel are OLE files. */
const office =
  /^application\/(x-)?(zip|(dos_)?(ms[-_]?)?(excel|word)|xlsx?|docx?|vnd\.ms-(excel|word|office)|vnd\.openxmlformats(?!.*presentation)|ole-|cdf|encrypted)/
/** Audio and video share their container formats. */
const media = /^(audio|video)\/|^application\/(ogg|mp4|(x-)?matroska)$/
/** Programs, archives, fonts, mails, slides and books: no accepted format has these types. */
const foreign = new RegExp(
  "^(font|model|message|multipart)/|powerpoint|presentation|vnd\\.(oasis|sun|apple)\\.|[/.-]("
    + "(ms(download|dos-program|i)|dosexec|executable|elf|mach-binary|sharedlib|object|wasm|bat|hta|ms-(installer|shortcut|application))"
    + "|(c?sh|shellscript|powershell|perl|python(-code)?|php(-source)?|ruby|java|java-archive|java-vm|shockwave-flash)"
    + "|((package|debian)-archive|(debian|binary)-package|deb|rpm|redhat-package-manager)"
    + "|(apple-diskimage|iso9660-image|cd-image|cab|(cab|7z|rar)-compressed|rar|gzip|bzip2?|xz|lzma|zstd|g?tar)"
    + "|(rtf|epub\\+zip|mobipocket-ebook|pptx?|postscript|msaccess|sqlite3|bittorrent)"
    + ")$"
)

interface Format {
  /** The declared types that match. */
  readonly types: ReadonlyArray<RegExp>
  readonly isText: boolean
}

const textual: Format = { types: [text], isText: true }
const binary = (...types: ReadonlyArray<RegExp>): Format => ({ types, isText: false })

const formats: Readonly<Record<string, Format>> = {
  png: binary(image),
  jpg: binary(image),
  webp: binary(image),
  gif: binary(image),
  txt: textual,
  pdf: binary(pdf),
  json: textual,
  js: textual,
  css: textual,
  html: textual,
  csv: textual,
  xml: textual,
  docx: binary(office),
  // Many programs write HTML or CSV with this extension.
  xls: { types: [office, text], isText: true },
  xlsx: binary(office),
  mp3: binary(media),
  wav: binary(media),
  ogg: binary(media),
  m4a: binary(media),
  webm: binary(media),
  mp4: binary(media),
  mkv: binary(media)
}

/** Other extensions of the formats, as browsers and recorders give them. Only `jpeg` and `htm` stay in the name. */
const spellings: Readonly<Record<string, string>> = {
  jpeg: "jpg",
  jpe: "jpg",
  jfif: "jpg",
  pjpeg: "jpg",
  pjp: "jpg",
  htm: "html",
  mjs: "js",
  wave: "wav",
  oga: "ogg",
  opus: "ogg",
  weba: "webm",
  m4v: "mp4"
}

export const extensions: ReadonlyArray<string> = Object.keys(formats)

/** Each with its other spellings, as documents list them. */
export const described: string = extensions.map((extension) => {
  const others = Object.keys(spellings).filter((other) => spellings[other] === extension)
  return others.length === 0 ? extension : `${extension} (${others.join(", ")})`
}).join(", ")

/** With the other spellings. */
export const allExtensions: ReadonlyArray<string> = [...extensions, ...Object.keys(spellings)]

const spelled = (extension: string): string | undefined => {
  const format = Object.hasOwn(spellings, extension) ? spellings[extension] : extension
  return format !== undefined && Object.hasOwn(formats, format) ? format : undefined
}

/** The text after the last dot of a name, in lower case; undefined without letters, as in `v1.2`. */
const extensionIn = (name: string): string | undefined => /\.(?=\d*[a-z])([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase()

/** The format by a file's extension, in lower case; undefined when it is not accepted. */
export const formatOf = (name: string): string | undefined => spelled(extensionIn(name) ?? "")

/** Types that clients send for unknown files. RFC 7578 reads a missing type as `text/plain`. */
const unspecific = /^text\/plain$|\/(x-)?(octet-stream|binary|unknown|download|force-download|\*)$|^[^/]*$/

/** A declared type without its parameters, in lower case. */
const essenceOf = (mediaType: string): string => mediaType.split(";", 1)[0]?.trim().toLowerCase() ?? ""

const fits = (format: string, type: string): boolean =>
  formats[format]?.types.some((fitting) => fitting.test(type)) === true

/** The characters that a header of a form may contain. */
const isFieldValue = /^[\x20-\x7e]{0,255}$/

/** Whether the declared media type is known to belong to another kind of file, or is no value of a header. */
export const contradicts = (format: string, mediaType: string): boolean => {
  const type = essenceOf(mediaType)
  if (!isFieldValue.test(mediaType)) return true
  const isKnown = [text, /^image\//, pdf, office, media, foreign].some((kind) => kind.test(type))
  return isKnown && !unspecific.test(type) && !fits(format, type)
}

/** Subtypes that are not the extension of their format. */
const subtypes: Readonly<Record<string, string>> = {
  "vnd.wave": "wav",
  matroska: "mkv",
  ecmascript: "js",
  javascript: "js",
  ndjson: "json",
  "comma-separated-values": "csv",
  acrobat: "pdf"
}

/** The format of a file whose media type is declared; undefined when the type names none that is accepted. */
export const formatOfType = (mediaType: string): string | undefined => {
  const type = essenceOf(mediaType)
  const subtype = type.replace(/^[^/]*\/(x-)?/, "")
  const usual = Object.keys(mediaTypes).find((extension) => mediaTypes[extension] === type.replace("/x-", "/"))
  const suffix = type.startsWith("image/") ? undefined : /\+(json|xml)$/.exec(type)?.[1]
  const named = Object.hasOwn(subtypes, subtype) ? subtypes[subtype] : undefined
  const format = usual ?? named ?? suffix ?? spelled(subtype) ?? (type.startsWith("text/") ? "txt" : "")
  return fits(format, type) ? spelled(format) : undefined
}

/** A file as the backend gets it. Its name has an accepted extension. */
export interface Identified {
  readonly format: string
  readonly name: string
  readonly mimeType: string
}

/** Characters of a file's name, as most file systems have it. */
const maxName = 255

/** Without dots and blanks at its end, which Windows drops too, so that `a.exe.` is a program. */
const stemOf = (name: string): string => {
  let end = name.length
  while (end > 0 && ". ".includes(name.charAt(end - 1))) end -= 1
  return name.slice(0, end)
}

/** Identifies a file by its name, or by its declared type if the name has no extension; undefined when it is not accepted. */
export const identify = (given: string, declared: string): Identified | undefined => {
  const stem = stemOf(given)
  const extension = extensionIn(stem)
  const format = extension === undefined ? formatOfType(declared) : spelled(extension)
  if (format === undefined) return undefined
  const base = extension === undefined ? stem : stem.slice(0, -extension.length - 1)
  const isUsual = mediaTypeOf(stem) !== undefined
  const ending = isUsual ? stem.slice(base.length) : `.${format}`
  const name = `${(base || (isUsual ? "" : "file")).slice(0, maxName - ending.length).toWellFormed()}${ending}`
  const isDeclared = declared.includes("/") && essenceOf(declared) !== "application/octet-stream"
  return { format, name, mimeType: isDeclared ? declared : mediaTypeOf(name) ?? "application/octet-stream" }
}

/** Whether an empty file is valid in the format. */
export const mayBeEmpty = (format: string): boolean => formats[format]?.isText === true

/** The number of leading bytes that `isDangerous` needs. */
export const headBytes = 256

type Signature = (head: Uint8Array) => boolean

const at = (offset: number, ...bytes: ReadonlyArray<number>): Signature => (head) =>
  bytes.every((byte, index) => head[offset + index] === byte)

const ascii = (offset: number, characters: string): Signature =>
  at(offset, ...Array.from(characters, (character) => character.charCodeAt(0)))

/** The header of DOS and Windows programs has 64 bytes, some of them zero. A text may begin with the same letters. */
const isWindowsProgram: Signature = (head) =>
  head.length >= 64 && ascii(0, "MZ")(head) && head.subarray(0, 64).includes(0)

const programs: ReadonlyArray<Signature> = [
  isWindowsProgram,
  ascii(0, "\x7fELF"),
  // Mach-O in either byte order; the last two are also used by Java classes.
  at(0, 0xfe, 0xed, 0xfa, 0xce),
  at(0, 0xfe, 0xed, 0xfa, 0xcf),
  at(0, 0xce, 0xfa, 0xed, 0xfe),
  at(0, 0xcf, 0xfa, 0xed, 0xfe),
  at(0, 0xca, 0xfe, 0xba, 0xbe),
  at(0, 0xca, 0xfe, 0xba, 0xbf),
  // A Windows shortcut.
  at(0, 0x4c, 0, 0, 0, 1, 0x14, 2, 0)
]

/** The beginning of a script, or of a page that a browser would run. */
const script = /^(\xef\xbb\xbf)?(#![ \t]*\/|\s*<(!doctype html|html|head|body|script|iframe|svg|\?php)[\s>])/i

/** Whether the content that begins with `head` is certainly not of the format, and dangerous. */
export const isDangerous = (format: string, head: Uint8Array): boolean =>
  programs.some((signature) => signature(head)) ||
  (formats[format]?.isText === false && script.test(String.fromCharCode(...head.subarray(0, headBytes))))

const images: Readonly<Record<string, Signature>> = {
  png: at(0, 0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
  jpg: at(0, 0xff, 0xd8, 0xff),
  webp: (head) => ascii(0, "RIFF")(head) && ascii(8, "WEBP")(head),
  gif: (head) => ascii(0, "GIF87a")(head) || ascii(0, "GIF89a")(head)
}

/** The format of an image by its content; undefined when it is unknown. */
export const imageFormatOf = (head: Uint8Array): string | undefined =>
  Object.keys(images).find((format) => images[format]?.(head) === true)
