/** Ids of the OpenAI API that name a leg of a task, so that nothing is stored to find it. */
import { Option, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { isTaskId, type TaskId } from "../../domain/Task.ts"

export interface LegId {
  readonly uuid: TaskId
  readonly leg: number
}

const suffixOf = ({ leg, uuid }: LegId) => `${uuid.replaceAll("-", "")}_${leg}`

export const responseId = (id: LegId): string => `resp_${suffixOf(id)}`
export const messageId = (id: LegId): string => `msg_${suffixOf(id)}`
export const inputId = (id: LegId, index: number): string => `in_${suffixOf(id)}_${index}`
/** `index` is that of the call among the calls of the leg. */
export const callId = (id: LegId, index: number): string => `fc_${suffixOf(id)}_${index}`

const pattern =
  /^(resp|msg|fc)_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_(\d{1,6})(?:_\d{1,6})?$/

/** The leg that an id of a response or of an output item names. */
export const parse = (id: string): LegId | undefined => {
  const [, , ...parts] = pattern.exec(id) ?? []
  const uuid = parts.slice(0, 5).join("-")
  return isTaskId(uuid) ? { uuid, leg: Number(parts[5]) } : undefined
}

/** An uploaded file. Its id contains these fields. */
export const StoredFile = Schema.Struct({
  id: Schema.String,
  name: Schema.String,
  mime_type: Schema.String,
  path: Schema.String,
  bytes: Schema.Int,
  /** Seconds. */
  created_at: Schema.Int
})
export type StoredFile = typeof StoredFile.Type

const FileJson = Schema.fromJsonString(StoredFile)

export const fileId = (file: StoredFile): string => `file-${Base64Url.encode(JSON.stringify(file))}`

export const parseFile = (id: string): StoredFile | undefined => {
  const decoded = id.startsWith("file-") ? Base64Url.decodeString(id.slice(5)) : undefined
  if (decoded === undefined || decoded._tag === "Failure") return undefined
  return Option.getOrUndefined(Schema.decodeOption(FileJson)(decoded.success))
}
