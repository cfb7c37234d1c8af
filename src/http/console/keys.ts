/** Single-key shortcuts. They are dead while a field has focus or a dialog is open, and can be switched off (WCAG 2.1.4). */
import { useLayoutEffect } from "preact/hooks"
import { isHelpOpen, isPaletteOpen, screens } from "./palette.ts"
import { keys } from "./preferences.ts"
import { isOps, navigate } from "./Router.ts"

export const shortcuts = [
  ["Ctrl K", "Go to a screen, task or user"],
  ["/", "Filter"],
  ["j", "Next row or question"],
  ["k", "Previous row or question"],
  ["Enter", "Open the row"],
  ["n", "New task"],
  ["i", "Inbox"],
  ["t", "Tasks"],
  ["r", "Refresh"],
  ["Esc", "Close"],
  ["?", "This list"]
] as const

/** Those that lead to screens of users. */
export const ofUsers: ReadonlyArray<string> = ["n", "i"]

type Action = () => unknown

const ofScreen = new Map<string, Action>()

/** Shortcuts of the screen that is shown, from its first frame on. */
export const useKeys = (actions: Readonly<Record<string, Action>>) =>
  useLayoutEffect(() => {
    for (const [key, action] of Object.entries(actions)) ofScreen.set(key, action)
    return () => {
      for (const key of Object.keys(actions)) ofScreen.delete(key)
    }
  })

/** Moves the focus between the links of rows. */
const moveRow = (step: number) => {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")]
  const index = rows.findIndex((row) => row === document.activeElement)
  const next = index < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, index + step))
  rows[next]?.focus()
}

const general: Readonly<Record<string, Action>> = {
  j: () => moveRow(1),
  k: () => moveRow(-1),
  n: () => isOps.value || navigate("/new"),
  i: () => isOps.value || navigate("/inbox"),
  t: () => navigate(isOps.value ? "/ops/tasks" : "/tasks"),
  "/": () => document.querySelector<HTMLElement>("[data-filter]")?.focus(),
  "?": () => isHelpOpen.value = true
}

const isTyping = (target: EventTarget | null) =>
  target instanceof Element && target.closest("input, textarea, select, [contenteditable], [role=tablist]") !== null

export const start = () =>
  document.addEventListener("keydown", (event) => {
    if (
      (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" &&
      document.querySelector("dialog[open]") === null
    ) {
      event.preventDefault()
      isPaletteOpen.value = screens.value.length > 0
      return
    }
    if (keys.value === "off" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (document.querySelector("dialog[open]") !== null) return
    const action = ofScreen.get(event.key) ?? (Object.hasOwn(general, event.key) ? general[event.key] : undefined)
    if (action === undefined) return
    event.preventDefault()
    action()
  })
