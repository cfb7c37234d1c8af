/** The beginning of what a task asks, for lists. It is read from the first characters of the stored request, so that it costs little. */

/** Characters. */
const length = 120
/** Characters of a stored request that are read: 120 take up to 720 as escapes. */
export const readLength = 2048

const input = "\"input\":"
/** The first text that is not blank, or else the name of the first file. A text may go on behind what was read. */
const texts = /"text"\s*:\s*"((?:[^"\\]|\\.)*)/g
const names = /"name"\s*:\s*"((?:[^"\\]|\\.)*)/g

/** The text of a JSON string that may have been cut, on one line. */
const decoded = (escaped: string): string => {
  const whole = escaped.replace(/\\(u[0-9a-f]{0,3})?$/i, "")
  try {
    const text: unknown = JSON.parse(`"${whole}"`)
    return typeof text === "string" ? text.toWellFormed().replace(/\s+/g, " ").trim() : ""
  } catch {
    return ""
  }
}

/** The first `length` characters of the request that `stored` begins; null when it has neither text nor files there. */
export const of = (stored: string): string | null => {
  const start = stored.indexOf(input)
  if (start < 0) return null
  const read = stored.slice(start)
  for (const pattern of [texts, names]) {
    for (const [, escaped = ""] of read.matchAll(pattern)) {
      const text = decoded(escaped)
      if (text !== "") return [...text].slice(0, length).join("")
    }
  }
  return null
}
