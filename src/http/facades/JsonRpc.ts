/** JSON-RPC 2.0 over HTTP, as some façades have it. */
import { HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import { RawJson } from "../../domain/json/RawJson.ts"
import { readValid } from "../../domain/json/Reader.ts"
import type { Found } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import { type Writable, write } from "../../domain/json/Writer.ts"

/** Bytes of an id, which the answer repeats. */
const maxId = 256

/** A number is answered digit by digit: a client may count beyond 2^53. */
export type Id = string | RawJson

/** The id of a message, a text or a whole number; undefined for anything else. */
export const idIn = (found: Found | undefined, bytes: Uint8Array): Id | undefined => {
  const isId = found?.kind === Kind.string || found?.kind === Kind.number
  if (!isId || found.end - found.start > maxId) return undefined
  const value = readValid(bytes, found.start)
  if (typeof value === "string") return value
  return Number.isInteger(value) ? new RawJson(Kind.number, bytes.slice(found.start, found.end)) : undefined
}

export const wrongId = `id must be a text or a whole number of at most ${maxId} bytes.`

export const isPresent = (found: Found | undefined): found is Found => found !== undefined && found.kind !== Kind.null

export const rawIn = (found: Found | undefined, bytes: Uint8Array): RawJson | undefined =>
  isPresent(found) ? new RawJson(found.kind, bytes, found.start, found.end) : undefined

export const encode = (value: Writable) => OpaqueJson.concat(OpaqueJson.toBytes(write(value)))

export const json = (body: Writable, status = 200, headers: Readonly<Record<string, string>> = {}) =>
  HttpServerResponse.uint8Array(encode(body), { status, headers, contentType: "application/json" })
