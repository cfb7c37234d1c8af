/** The operator's session, which the browser keeps in a cookie that this page cannot read, and the calls that it allows. */
import { signal } from "@preact/signals"
import { fromResponse } from "../client/promise/ApiErrors.ts"
import { observe } from "./api.ts"

export interface OperatorSession {
  readonly role: "full" | "read"
  readonly name: string
  readonly expires_at: string
}

/** Null when nobody is logged in; undefined until that is known. */
export const operator = signal<OperatorSession | null | undefined>(undefined)

/** Milliseconds: longer than the service works on one call. */
const timeout = 15_000

/** A path below `/internal/operator`, or a whole one of an extension. */
const send = (path: string, method: string, body: unknown, signal: AbortSignal | undefined) =>
  fetch(path.startsWith("/internal/") ? path : `/internal/operator${path}`, {
    method,
    cache: "no-store",
    headers: { "x-console": "1", ...(body === undefined ? {} : { "content-type": "application/json" }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.any([AbortSignal.timeout(timeout), ...(signal === undefined ? [] : [signal])])
  })

const call = async <A>(path: string, method: string, body: unknown, signal?: AbortSignal): Promise<A> => {
  const isRead = method === "GET"
  try {
    const response = await send(path, method, body, signal)
    observe(isRead, response.status >= 500)
    if (response.ok) return response.status === 204 ? undefined! : await response.json()
    if (response.status === 401) operator.value = null
    throw fromResponse(response.status, await response.text(), response.headers)
  } catch (error) {
    if (error instanceof TypeError && signal?.aborted !== true) observe(isRead, true)
    throw error
  }
}

export const get = <A>(path: string, signal?: AbortSignal): Promise<A> => call<A>(path, "GET", undefined, signal)
export const post = <A>(path: string, body?: unknown): Promise<A> => call<A>(path, "POST", body)
export const patch = <A>(path: string, body: unknown): Promise<A> => call<A>(path, "PATCH", body)
export const remove = (path: string): Promise<void> => call(path, "DELETE", undefined)
export const put = <A>(path: string, body: unknown): Promise<A> => call<A>(path, "PUT", body)

/** Asks whether the browser has a session. */
export const load = async () => {
  const response = await send("/session", "GET", undefined, undefined)
  if (response.status >= 500) throw fromResponse(response.status, await response.text(), response.headers)
  operator.value = response.ok ? await response.json() : null
}

/** Returns the problem of the token, or undefined after the log-in. */
export const logIn = async (token: string): Promise<string | undefined> => {
  if (token.trim() === "") return "Paste a token first."
  try {
    const response = await send("/session", "POST", { token: token.trim() }, undefined)
    if (response.ok) return void await load()
    const { message } = fromResponse(response.status, await response.text(), response.headers)
    return message
  } catch {
    return "The service cannot be reached. Try again soon."
  }
}

export const logOut = async () => {
  await call("/session", "DELETE", undefined)
  operator.value = null
}

/** Whether the operator may change something. The service refuses all the same. */
export const mayChange = () => operator.value?.role === "full"

/** Milliseconds between polls: of the overview, and of lists. */
export const intervals = { overview: 5000, list: 10_000 }

export { queryOf } from "./Router.ts"
