/** Addresses in the texts of tasks, which are not trusted. */

/** Characters of an address. */
export const maxAddress = 2048

/** A safe address of a link in a text, or undefined. */
export const addressOf = (text: string): URL | undefined => {
  const url = text.length <= maxAddress ? URL.parse(text) : null
  return url !== null && /^(https?|mailto):$/.test(url.protocol) && url.username === "" ? url : undefined
}

/** The link of a path below the storage; undefined when the path could lead elsewhere. */
export const linkOf = (storage: URL, path: string): string | undefined => {
  const segments = path.split("/")
  const isPlain = segments.every((segment) => segment !== "" && segment !== "." && segment !== "..")
  if (!isPlain || path.length > maxAddress || /^[a-z][a-z0-9+.-]*:|\\/i.test(path) || !path.isWellFormed()) {
    return undefined
  }
  return `${storage.href.replace(/\/$/, "")}/${segments.map(encodeURIComponent).join("/")}`
}
