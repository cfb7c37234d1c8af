/**
 * The user's token. It is in memory, and in the tab's `sessionStorage` when the user ticks that. Requests that it no longer
 * allows wait until the user gives another one.
 */
import { effect, signal } from "@preact/signals"
import { now } from "./clock.ts"
import * as preferences from "./preferences.ts"

export interface Session {
  readonly token: string
  readonly sub: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

export const session = signal<Session | undefined>(undefined)
/** Why another token is needed, or undefined. */
export const renewal = signal<"soon" | "refused" | undefined>(undefined)

/** Milliseconds before the end of a token at which another one is requested. */
const renewBefore = 120_000

const claimsOf = (token: string): { readonly sub?: unknown; readonly exp?: unknown } | undefined => {
  try {
    const [, payload = ""] = token.split(".")
    const binary = atob(payload.replaceAll("-", "+").replaceAll("_", "/"))
    const parsed: unknown = JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (char) => char.charCodeAt(0))))
    return typeof parsed === "object" && parsed !== null ? parsed : undefined
  } catch {
    return undefined
  }
}

/** Reads a token for display. The service checks it; a string is a problem that is certain without asking it. */
const parse = (text: string, at: number): Session | string => {
  const token = text.trim().replace(/^Bearer\s+/i, "")
  if (token === "") return "Paste a token first."
  if (!/^[\w-]+\.[\w-]+\.[\w-]+$/.test(token)) return "This is not a JWT: one has three parts, separated by dots."
  const claims = claimsOf(token)
  if (claims === undefined) return "This is not a JWT: its middle part cannot be read."
  if (typeof claims.sub !== "string" || claims.sub === "") return "The token names no user: it has no “sub”."
  if (typeof claims.exp !== "number") return "The token has no end: it has no “exp”."
  if (claims.exp * 1000 <= at) return "The token has expired."
  return { token, sub: claims.sub, expiresAt: claims.exp * 1000 }
}

/** The requests that wait for another token. */
let waiting: Array<{ readonly resolve: () => void; readonly reject: (reason: unknown) => void }> = []

/** Resolves when a token other than the refused one is there; rejects when the user logs out or the signal aborts. */
export const renewed = (refused: string, signal?: AbortSignal | null): Promise<void> => {
  if (session.value !== undefined && session.value.token !== refused) return Promise.resolve()
  renewal.value = "refused"
  return new Promise((resolve, reject) => {
    waiting.push({ resolve, reject })
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true })
  })
}

const check = (token: string) =>
  fetch("/api/tasks?per_page=1", { headers: { authorization: `Bearer ${token}` }, cache: "no-store" })

/** Returns the problem of the token, or undefined after the log-in. */
export const logIn = async (text: string, keep: boolean): Promise<string | undefined> => {
  const parsed = parse(text, Date.now())
  if (typeof parsed === "string") return parsed
  const before = session.value
  if (before !== undefined && before.sub !== parsed.sub) {
    return `This token belongs to ${parsed.sub}. Log out first to change the user.`
  }
  try {
    const { status } = await check(parsed.token)
    if (status === 401) return "The service refuses this token: it is revoked, or signed with another key."
    if (status >= 500) return "The service cannot check tokens at the moment. Try again soon."
  } catch {
    return "The service cannot be reached. Try again soon."
  }
  session.value = parsed
  renewal.value = undefined
  preferences.write(preferences.tab, "token", keep ? parsed.token : null)
  for (const { resolve } of waiting.splice(0)) resolve()
  return undefined
}

export const isKept = () => preferences.read(preferences.tab, "token") !== null

export const logOut = () => {
  session.value = undefined
  renewal.value = undefined
  // Drafts of answers belong to the user too.
  try {
    sessionStorage.clear()
  } catch {
    // Nothing is kept where storage is forbidden.
  }
  for (const { reject } of waiting.splice(0)) reject(new Error("Logged out"))
}

/** The user goes on with the token that is about to end. */
let dismissed: string | undefined

export const dismiss = () => {
  if (renewal.value === "refused") return logOut()
  dismissed = session.value?.token
  renewal.value = undefined
}

/** Restores a kept token and watches for the end of the current one. */
export const start = () => {
  const parsed = parse(preferences.read(preferences.tab, "token") ?? "", Date.now())
  if (typeof parsed !== "string") session.value = parsed
  effect(() => {
    const current = session.value
    if (current === undefined || renewal.peek() !== undefined || current.token === dismissed) return
    if (current.expiresAt - now.value < renewBefore) renewal.value = "soon"
  })
}

/** A token for a user, from a service that runs with a development key. */
export const developmentToken = async (sub: string): Promise<string> => {
  const response = await fetch("/console/dev-login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ sub })
  })
  const { message, token } = await response.json()
  if (!response.ok) throw new Error(message)
  return token
}
