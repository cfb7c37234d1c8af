/** `Ctrl+K`: screens, actions, assistants and ids by their names. A combobox by the ARIA pattern. */
import { useEffect, useState } from "preact/hooks"
import * as assistants from "../assistants.ts"
import { entriesFor, type Entry, isPaletteOpen } from "../palette.ts"
import { isOps } from "../Router.ts"
import { Dialog } from "./Dialog.tsx"

const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 }

export const Palette = () => {
  const [text, setText] = useState("")
  const [chosen, setChosen] = useState(0)
  useEffect(() => {
    if (!isOps.value && assistants.listed.value === undefined) void assistants.load()
  }, [])
  const entries = entriesFor(text)
  const at = Math.min(chosen, entries.length - 1)
  useEffect(() => document.getElementById(`palette-${at}`)?.scrollIntoView({ block: "nearest" }), [at])
  const close = () => isPaletteOpen.value = false
  const run = (entry: Entry | undefined) => {
    if (entry === undefined) return
    close()
    // The dialog gives the focus back before the screen changes.
    setTimeout(entry.run)
  }
  return (
    <Dialog title="Go to" onClose={close}>
      <div class="palette">
        <input
          type="text"
          role="combobox"
          aria-label="Screen, action, assistant or id"
          aria-expanded={entries.length > 0}
          aria-controls="palette-entries"
          aria-autocomplete="list"
          aria-activedescendant={entries.length === 0 ? undefined : `palette-${at}`}
          autocomplete="off"
          spellcheck={false}
          maxLength={200}
          autofocus
          placeholder="Screen, action, assistant or id"
          value={text}
          onInput={({ currentTarget: { value } }) => {
            setText(value)
            setChosen(0)
          }}
          onKeyDown={(event) => {
            const step = steps[event.key]
            if (step !== undefined) setChosen((at + step + entries.length) % Math.max(1, entries.length))
            else if (event.key === "Enter") run(entries[at])
            else return
            event.preventDefault()
          }}
        />
        <ul id="palette-entries" role="listbox" aria-label="Entries">
          {entries.map((entry, index) => (
            <li
              key={`${entry.kind} ${entry.label}`}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === at}
              onClick={() => run(entry)}
            >
              <bdi>{entry.label}</bdi>
              <span class="detail">{entry.kind}</span>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  )
}
