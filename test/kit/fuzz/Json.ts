/** JSON values that no JavaScript literal can express, and updates of a path that keep all other keys, even `__proto__`. */

export type Path = ReadonlyArray<string | number>

type Container = Readonly<Record<string, unknown>>

class Raw {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Literal JSON text: huge numbers, duplicate names, nesting deeper than any stack. */
export const raw = (text: string): unknown => new Raw(text)

const isObject = (value: unknown): value is Container =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const write = (value: unknown): string => {
  if (value instanceof Raw) return value.text
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`
  if (!isObject(value)) return JSON.stringify(value) ?? "null"
  const fields = Object.entries(value).filter(([, item]) => item !== undefined)
  return `{${fields.map(([key, item]) => `${JSON.stringify(key)}:${write(item)}`).join(",")}}`
}

/** A copy with `value` at `path`, or without that path when `value` is undefined. */
export const put = (whole: unknown, [key, ...rest]: Path, value: unknown): unknown => {
  if (key === undefined) return value
  if (typeof key === "number") {
    const items: ReadonlyArray<unknown> = Array.isArray(whole) ? whole : []
    const next = put(items[key], rest, value)
    return next === undefined ? items.filter((_, index) => index !== key) : Object.assign([...items], { [key]: next })
  }
  const next = put(isObject(whole) ? whole[key] : undefined, rest, value)
  return { ...(isObject(whole) ? whole : {}), [key]: next }
}

/** Removes everything that no request may contain, so that a generated value is valid. */
export const clean = (value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed().replaceAll("\0", "0")
  if (Array.isArray(value)) return value.map(clean)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [clean(key), clean(item)]))
}

/** `depth` nested arrays. */
export const nested = (depth: number): unknown => {
  let value: unknown = []
  for (let level = 1; level < depth; level++) value = [value]
  return value
}

export const dotted = (path: Path): string => path.length === 0 ? "body" : path.join(".")
