/** Calls of the service with the user's token. */
import { signal } from "@preact/signals"
import { TaskServiceClient } from "../client/promise/TaskServiceClient.ts"
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
