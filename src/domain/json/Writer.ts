/** Writes JSON that contains raw leaves: everything else is encoded anew, and the leaves' bytes are spliced. */
import { RawJson } from "./RawJson.ts"

/** A JSON value with raw leaves. Fields that are undefined are left out, like by `JSON.stringify`. */
export type Writable =
  | null
  | boolean
  | number
  | string
  | RawJson
  | ReadonlyArray<Writable>
  | { readonly [key: string]: Writable | undefined }

const isArray = (value: Writable): value is ReadonlyArray<Writable> => Array.isArray(value)

/** Text and bytes in their order, with the text between two leaves in one piece. */
class Pieces {
  readonly #pieces: Array<string | Uint8Array> = []
  #text = ""

  add(value: Writable): void {
    if (value instanceof RawJson) this.#raw(value)
    else if (typeof value !== "object" || value === null) this.#text += JSON.stringify(value)
    else if (isArray(value)) this.#array(value)
    else this.#object(value)
  }

  end(): ReadonlyArray<string | Uint8Array> {
    this.#splice(undefined)
    return this.#pieces
  }

  #raw(json: RawJson): void {
    const text = json.shortText
    if (text === undefined) this.#splice(json.bytes)
    else this.#text += text
  }

  #array(items: ReadonlyArray<Writable>): void {
    this.#text += "["
    items.forEach((item, index) => {
      if (index > 0) this.#text += ","
      this.add(item)
    })
    this.#text += "]"
  }

  #object(object: { readonly [key: string]: Writable | undefined }): void {
    let separator = "{"
    for (const key of Object.keys(object)) {
      const value = object[key]
      if (value === undefined) continue
      this.#text += `${separator}${JSON.stringify(key)}:`
      separator = ","
      this.add(value)
    }
    this.#text += separator === "{" ? "{}" : "}"
  }

  #splice(bytes: Uint8Array | undefined): void {
    if (this.#text !== "") this.#pieces.push(this.#text)
    this.#text = ""
    if (bytes !== undefined) this.#pieces.push(bytes)
  }
}

/** JSON as pieces, for `OpaqueJson.toBytes` or `OpaqueJson.join`. Bytes are not copied. */
export const write = (value: Writable): ReadonlyArray<string | Uint8Array> => {
  const pieces = new Pieces()
  pieces.add(value)
  return pieces.end()
}
