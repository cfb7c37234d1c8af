/** Calls of the service with the user's token. */
import { signal } from "@preact/signals"
import { fromResponse } from "../client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../client/promise/TaskServiceClient.ts"
import type { Task } from "../client/promise/Types.ts"
import { config } from "./config.ts"
import type { ConsoleExtension } from "./ConsoleExtension.ts"
import * as all from "./extensions.ts"
import { renewed, session } from "./session.ts"

/** Milliseconds of one attempt. */
const timeout = 30_000

/** Milliseconds since the epoch since which reads have failed, or undefined. */
export const failingSince = signal<number | undefined>(undefined)

/** Keeps since when reads have failed. */
export const observe = (isRead: boolean, isFailure: boolean) => {
  if (!isFailure) failingSince.value = undefined
  else if (isRead) failingSince.value ??= Date.now()
}

/** Sends a request again with the next token when the service refuses the current one. */
export const fetchAsUser: typeof fetch = async (input, init = {}) => {
  const isRead = (init.method ?? "GET") === "GET"
  const headers = new Headers(init.headers)
  const isStream = headers.get("accept") === "text/event-stream"
  for (;;) {
    const token = session.value?.token ?? ""
    headers.set("authorization", `Bearer ${token}`)
    const signals = [init.signal, isStream ? undefined : AbortSignal.timeout(timeout)].filter((each) => each != null)
    try {
      const response = await fetch(input, { ...init, headers, cache: "no-store", signal: AbortSignal.any(signals) })
      observe(isRead, response.status >= 500)
      if (response.status !== 401) return response
    } catch (error) {
      if (init.signal?.aborted !== true) observe(isRead, true)
      throw error
    }
    await renewed(token, init.signal)
  }
}

export const client = new TaskServiceClient({
  baseUrl: location.origin,
  token: () => session.value?.token ?? "",
  // `fetchAsUser` limits each attempt: the time until the user enters a token does not count.
  timeout: Infinity,
  fetch: fetchAsUser
})

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

/** What extensions add, whether or not the service has them. */
export const extensions = Object.entries<ConsoleExtension>(all).map(([name, extension]) => ({ name, ...extension }))

export const isServed = (name: string) => config.value.extensions.includes(name)

/** What the extensions of the service add. */
export const served = () => extensions.filter(({ name }) => isServed(name))
