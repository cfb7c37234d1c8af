/** Moments and durations in readable form. One timer moves all ages. */
import { signal } from "@preact/signals"

/** Milliseconds since the epoch, once a second. */
export const now = signal(Date.now())

export const start = () =>
  setInterval(() => {
    if (!document.hidden) now.value = Date.now()
  }, 1000)

const units = [["d", 86_400], ["h", 3600], ["min", 60]] as const

/** Two units at most, as in `3 min 20 s`. Milliseconds matter only below ten seconds. */
export const duration = (milliseconds: number): string => {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`
  if (milliseconds < 10_000) return `${(milliseconds / 1000).toFixed(1)} s`
  const seconds = Math.round(milliseconds / 1000)
  const index = units.findIndex(([, size]) => seconds >= size)
  const unit = units[index]
  if (unit === undefined) return `${seconds} s`
  const [name, size] = unit
  const [nextName, nextSize] = units[index + 1] ?? ["s", 1]
  const rest = Math.floor((seconds % size) / nextSize)
  return `${Math.floor(seconds / size)} ${name}${rest === 0 ? "" : ` ${rest} ${nextName}`}`
}

/** One unit, as in `3 min ago` or `in 2 h`. A moment less than a second away is now. */
export const relative = (at: number, from: number): string => {
  const distance = Math.abs(at - from)
  if (distance < 1000) return "now"
  const [text = "", unit = ""] = duration(Math.max(10_000, distance)).split(" ")
  const short = distance < 10_000 ? `${Math.floor(distance / 1000)} s` : `${text} ${unit}`
  return at > from ? `in ${short}` : `${short} ago`
}

/** `2026-11-22 10:31:04` in the chosen zone. */
export const moment = (at: number, zone: string): string => {
  const date = new Date(at)
  const shifted = zone === "utc" ? date : new Date(at - date.getTimezoneOffset() * 60_000)
  return shifted.toISOString().slice(0, 19).replace("T", " ")
}

export const clockTime = (at: number, zone: string): string => moment(at, zone).slice(11)
