/** What the palette offers: screens, actions, assistants, and what a typed text may be. */
import { signal } from "@preact/signals"
import * as assistants from "./assistants.ts"
import { theme } from "./preferences.ts"
import { isOps, navigate, queryOf } from "./Router.ts"

export const isPaletteOpen = signal(false)
export const isHelpOpen = signal(false)

export interface Entry {
  readonly label: string
  readonly kind: string
  readonly run: () => void
}

/** The screens of the navigation, as it is now. */
export const screens = signal<ReadonlyArray<{ readonly to: string; readonly label: string }>>([])

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const actions: ReadonlyArray<Entry> = [
  { kind: "Action", label: "Light theme", run: () => theme.value = "light" },
  { kind: "Action", label: "Dark theme", run: () => theme.value = "dark" },
  { kind: "Action", label: "Keyboard shortcuts", run: () => isHelpOpen.value = true }
]

const asked = (text: string): ReadonlyArray<Entry> => {
  const below = isOps.value ? "/ops/tasks" : "/tasks"
  const find = { kind: "Search", label: `Find “${text}” in tasks`, run: () => navigate(below + queryOf({ q: text })) }
  if (isUuid(text)) {
    return [{ kind: "Task", label: `Open ${text}`, run: () => navigate(`${below}/${text.toLowerCase()}`) }]
  }
  return isOps.value
    ? [find, { kind: "User", label: `User ${text}`, run: () => navigate(`/ops/users/${encodeURIComponent(text)}`) }]
    : [find]
}

const maxShown = 12

/** The entries for a text: those whose name has each of its words, then what it may be itself. */
export const entriesFor = (given: string): ReadonlyArray<Entry> => {
  const text = given.trim()
  const words = text.toLowerCase().split(/\s+/)
  const known: ReadonlyArray<Entry> = [
    ...screens.value.map(({ label, to }) => ({ kind: "Screen", label, run: () => navigate(to) })),
    ...isOps.value ? [] : (assistants.listed.value ?? []).map(({ id, name }) => ({
      kind: "Assistant",
      label: name || `Assistant ${id}`,
      run: () => navigate(`/tasks${queryOf({ assistant: id })}`)
    })),
    ...actions
  ]
  const matching = known.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
  return [...matching.slice(0, maxShown), ...text === "" ? [] : asked(text)]
}
