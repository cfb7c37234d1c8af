/** Media types of the accepted file formats. Without imports, because it is part of the small client. */

/** The media type by extension. The first extension of a type is the usual one. */
export const mediaTypes: Readonly<Record<string, string>> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
  gif: "image/gif",
  txt: "text/plain",
  pdf: "application/pdf",
  json: "application/json",
  js: "text/javascript",
  css: "text/css",
  html: "text/html",
  htm: "text/html",
  csv: "text/csv",
  xml: "application/xml",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  xls: "application/vnd.ms-excel",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  ogg: "audio/ogg",
  m4a: "audio/mp4",
  webm: "video/webm",
  mp4: "video/mp4",
  mkv: "video/x-matroska"
}

/** The media type by the extension of a file's name; undefined for another format. */
export const mediaTypeOf = (name: string): string | undefined => {
  const extension = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? ""
  return Object.hasOwn(mediaTypes, extension) ? mediaTypes[extension] : undefined
}
