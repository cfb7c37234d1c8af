/** Generators of JSON values of about `bytes` bytes, each expensive in a different way. */

const repeated = (unit: string, bytes: number) => unit.repeat(Math.max(1, Math.floor(bytes / unit.length)))

const numbered = (bytes: number, unit: (index: number) => string) => {
  const parts: Array<string> = []
  for (let length = 0; length < bytes; length += parts.at(-1)!.length + 1) parts.push(unit(parts.length))
  return parts.join(",")
}

const list = (items: string) => `[${items}]`

/** Nesting of 40 levels, which is allowed. */
const tower = `${"[".repeat(40)}${"]".repeat(40)}`

export const shapes = {
  numbers: (bytes) => list(`${repeated("0,", bytes)}0`),
  "empty objects": (bytes) => list(`${repeated("{},", bytes)}{}`),
  "small objects": (bytes) => list(`${repeated("{\"a\":{}},", bytes)}{}`),
  "deep nesting": (bytes) => repeated("[", bytes / 2) + repeated("]", bytes / 2),
  towers: (bytes) => list(`${repeated(`${tower},`, bytes)}0`),
  "many keys": (bytes) => `{${numbered(bytes, (index) => `"k${index}":0`)}}`,
  "objects of many shapes": (bytes) => list(numbered(bytes, (index) => `{"k${index}":0}`)),
  "one key again and again": (bytes) => `{${repeated("\"a\":0,", bytes)}"a":0}`,
  "one huge key": (bytes) => `{"${repeated("k", bytes)}":0}`,
  "short texts": (bytes) => list(`${repeated("\"\",", bytes)}""`),
  "one long text": (bytes) => `"${repeated("a", bytes)}"`,
  "text of escapes": (bytes) => `"${repeated("\\u00e9\\n\\\"", bytes)}"`,
  "text of two bytes": (bytes) => `"${repeated("я", bytes / 2)}"`,
  "text without an end": (bytes) => `"${repeated("a\\\"", bytes)}`,
  "one long number": (bytes) => repeated("1", bytes),
  "broken texts": (bytes) => list(`${repeated("\"\\u0000\",", bytes)}""`),
  "wrong items": (bytes) => list(`${repeated("{\"type\":1},", bytes)}{}`),
  "not JSON": (bytes) => repeated(",", bytes)
} satisfies Readonly<Record<string, (bytes: number) => string>>

export type Shape = keyof typeof shapes

export const bodyOf = (shape: Shape, bytes: number, before: string, after: string) =>
  Buffer.from(before + shapes[shape](bytes - before.length - after.length) + after)
