/** Tabs by the ARIA pattern: arrow keys move between them, and the address has the one that is open. */
import type { ComponentChildren } from "preact"
import { useEffect } from "preact/hooks"
import { query, reveal, setQuery } from "../Router.ts"

export interface Tab {
  readonly id: string
  readonly label: string
  readonly content: () => ComponentChildren
}

const steps: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1 }

export const Tabs = ({ label, tabs }: { readonly label: string; readonly tabs: ReadonlyArray<Tab> }) => {
  const open = tabs.find(({ id }) => id === query.value.get("tab")) ?? tabs[0]
  if (open === undefined) throw new Error("There is no tab")
  useEffect(() => reveal(document.getElementById(`tab-${open.id}`)), [open.id])
  const show = (tab: Tab | undefined) => {
    if (tab === undefined) return
    setQuery("tab", tab === tabs[0] ? undefined : tab.id, { replace: true })
    document.getElementById(`tab-${tab.id}`)?.focus({ preventScroll: true })
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const index = tabs.indexOf(open)
    const step = steps[event.key]
    if (step !== undefined) show(tabs.at((index + step) % tabs.length))
    else if (event.key === "Home") show(tabs[0])
    else if (event.key === "End") show(tabs.at(-1))
    else return
    event.preventDefault()
  }
  return (
    <div class="tabs">
      <div role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map((tab) => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`tab-${tab.id}`}
            aria-selected={tab === open}
            aria-controls="tab-panel"
            tabIndex={tab === open ? 0 : -1}
            onClick={() => show(tab)}
          >
            {tab.label}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tab-panel" aria-labelledby={`tab-${open.id}`} tabIndex={0}>{open.content()}</div>
    </div>
  )
}
