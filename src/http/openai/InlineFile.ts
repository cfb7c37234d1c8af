/** Files that a request contains as data URLs. They are uploaded before the task is created. */
import { Effect, Predicate } from "effect"
import { RawJson, stringOf } from "../../domain/json/RawJson.ts"
import { Kind } from "../../domain/json/tables.ts"
import { bytesOf } from "../facades/Base64Files.ts"
import { invalid, type Refused } from "./Errors.ts"

export type InlineFile = {
  readonly type: "inline"
  /** The field of the request. */
  readonly param: string
  readonly name: string
  readonly mimeType: string
  readonly base64: string
}

const way =
  "Send a data URL, as in data:application/pdf;base64,…, or upload the file to /v1/files and pass its file_id."

/** The file of a part; `data` is its data URL in the field `field`. */
export const parse = (
  data: unknown,
  filename: unknown,
  part: string,
  field: string
): Effect.Effect<InlineFile, Refused> => {
  const isText = Predicate.isString(data) || data instanceof RawJson && data.kind === Kind.string
  const url = isText ? stringOf(data) : ""
  // Recorders of browsers have commas in parameters: `data:video/webm;codecs=vp8,opus;base64,…`.
  const [head = "", mimeType] = /^data:([^;,]{0,255})(?:;[^;]{1,255})*;base64,/i.exec(url.slice(0, 1024)) ?? []
  if (mimeType === undefined) {
    return Effect.fail(invalid(part, `Only data URLs in base64 are read here. ${way}`, "unsupported_parameter"))
  }
  const name = Predicate.isString(filename) ? filename : ""
  return Effect.succeed({ type: "inline", param: `${part}.${field}`, name, mimeType, base64: url.slice(head.length) })
}

/** The file's bytes as an upload pulls them. */
export const contentOf = ({ base64, param }: InlineFile) =>
  bytesOf(base64, () => invalid(param, `The data URL is not valid base64. ${way}`))
