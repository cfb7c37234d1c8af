/** Entries in the browser's storage: theme, time zone, keys, filters. Never a token. A browser may forbid storage. */
import { effect, type Signal, signal } from "@preact/signals"

const prefix = "console."

export const read = (storage: () => Storage, name: string): string | null => {
  try {
    return storage().getItem(prefix + name)
  } catch {
    return null
  }
}

/** Null removes the entry. */
export const write = (storage: () => Storage, name: string, value: string | null) => {
  try {
    if (value === null) storage().removeItem(prefix + name)
    else storage().setItem(prefix + name, value)
  } catch {
    // A full or forbidden storage keeps nothing.
  }
}

export const local = () => localStorage
/** Only this tab reads it, until the tab is closed. */
export const tab = () => sessionStorage

const remembered = (name: string, initial: string): Signal<string> => {
  const kept = signal(read(local, name) ?? initial)
  effect(() => write(local, name, kept.value))
  return kept
}

/** `auto`, `light` or `dark`. */
export const theme = remembered("theme", "auto")
/** `local` or `utc`. */
export const zone = remembered("zone", "local")
/** `on` or `off`: single-key shortcuts. */
export const keys = remembered("keys", "on")
/** `on` or `off`: notifications of the browser. */
export const notifications = remembered("notifications", "off")
/** The query of the task list, as in `?status=failed`. */
export const taskFilter = remembered("tasks", "")

/** Shows the page in the chosen theme. */
export const start = () =>
  effect(() => {
    document.documentElement.dataset["theme"] = theme.value
  })
