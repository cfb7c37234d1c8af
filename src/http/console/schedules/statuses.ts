/** What became of the tasks of a schedule. */
import { fromResponse } from "../../client/promise/ApiErrors.ts"
import type { TaskPageBody } from "../../client/promise/TaskPages.ts"
import type { TaskStatus } from "../../client/promise/Types.ts"
import { fetchAsUser } from "../api.ts"

/** The statuses of the newest tasks of a schedule, by their ids. */
export const readStatuses = async (schedule: string, signal: AbortSignal): Promise<ReadonlyMap<string, TaskStatus>> => {
  const response = await fetchAsUser(`/api/tasks?${new URLSearchParams({ schedule, per_page: "100" })}`, { signal })
  if (!response.ok) throw fromResponse(response.status, await response.text(), response.headers)
  const { data }: TaskPageBody = await response.json()
  return new Map(data.map(({ status, uuid }) => [uuid, status]))
}
