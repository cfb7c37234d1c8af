/** Short messages: shown for a while, and spoken by screen readers, at most one in five seconds. */
import { signal } from "@preact/signals"

/** Milliseconds. */
const shownFor = 5000

export const spoken = signal("")
export const shown = signal<string | undefined>(undefined)

let waiting: string | undefined
let pause: ReturnType<typeof setTimeout> | undefined
let hide: ReturnType<typeof setTimeout> | undefined

/** Speaks a change. A newer one replaces one that still waits. */
export const announce = (message: string) => {
  if (pause !== undefined) {
    waiting = message
    return
  }
  spoken.value = message
  pause = setTimeout(() => {
    pause = undefined
    const next = waiting
    waiting = undefined
    if (next !== undefined) announce(next)
  }, shownFor)
}

/** Shows and speaks the result of an action. */
export const notify = (message: string) => {
  shown.value = message
  clearTimeout(hide)
  hide = setTimeout(() => shown.value = undefined, shownFor)
  announce(message)
}

export const copy = async (what: string, text: string) => {
  try {
    await navigator.clipboard.writeText(text)
    notify(`${what} copied`)
  } catch {
    notify(`The browser does not allow copying. ${what}: ${text.slice(0, 200)}`)
  }
}
