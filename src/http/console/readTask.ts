/** A task as the console shows it, with what extensions add. */
import { fromResponse } from "../client/promise/ApiErrors.ts"
import type { Task } from "../client/promise/Types.ts"
import { fetchAsUser } from "./api.ts"
import { served } from "./served.ts"

export interface TaskVersion {
  readonly task: Task
  readonly etag: string | null
}

/** Reads a task with the party that has to act, the request and the metadata; undefined when it has not changed since `etag`. */
export const readTask = async (
  uuid: string,
  etag: string | null,
  signal: AbortSignal
): Promise<TaskVersion | undefined> => {
  const added = served().flatMap(({ ofTask }) => ofTask?.include ?? [])
  const include = ["waiting_on", "request", "metadata", ...added].join(",")
  const response = await fetchAsUser(`/api/tasks/${encodeURIComponent(uuid)}?include=${include}`, {
    headers: { accept: "application/json", ...(etag === null ? {} : { "if-none-match": etag }) },
    signal
  })
  if (response.status === 304) return undefined
  if (!response.ok) throw fromResponse(response.status, await response.text(), response.headers)
  return { task: await response.json(), etag: response.headers.get("etag") }
}
