/** Parts of the operators' screens: cells that become lines of cards, filters in the address, and pages by cursor. */
import type { ComponentChildren } from "preact"
import { useRef } from "preact/hooks"
import type { Polled } from "../poll.ts"
import { href, path, query, setQuery } from "../Router.ts"

export interface CellProps {
  readonly label: string
  readonly class?: string
  readonly children: ComponentChildren
}

/** Narrow screens show the label in front of the value. */
export const Cell = ({ children, class: name, label }: CellProps) => (
  <td class={`cell ${name ?? ""}`}>
    <span class="card-label">{label}</span>
    <span>{children}</span>
  </td>
)

/** Columns of controls, which explain themselves. */
const controls: ReadonlySet<string> = new Set(["Choose", "Action"])

export const Columns = ({ names }: { readonly names: ReadonlyArray<string> }) => (
  <thead>
    <tr>
      {names.map((name) => (
        <th key={name} scope="col">{controls.has(name) ? <span class="visually-hidden">{name}</span> : name}</th>
      ))}
    </tr>
  </thead>
)

/** Text of users and systems, which may have any direction and length. */
export const Text = ({ children }: { readonly children: string }) => <bdi class="cut" title={children}>{children}</bdi>

const ranges = { hour: 1, day: 24, week: 7 * 24, month: 31 * 24 } as const
export type RangeName = keyof typeof ranges
const rangeLabels: Readonly<Record<RangeName, string>> = {
  hour: "Last hour",
  day: "Last 24 hours",
  week: "Last 7 days",
  month: "Last 31 days"
}
const rangeNames: ReadonlyArray<RangeName> = ["hour", "day", "week", "month"]

export const chosenRange = (): RangeName => rangeNames.find((name) => name === query.value.get("range")) ?? "day"

/** The parameters of the range until now, or until a moment in the address. */
export const rangeParameters = () => ({
  from: new Date(Date.now() - ranges[chosenRange()] * 3_600_000).toISOString()
})

export interface SelectProps {
  readonly name: string
  readonly label: string
  readonly options: ReadonlyArray<readonly [value: string, label: string]>
  readonly value?: string
}

/** A choice that is part of the address. Another choice begins with the first page. */
export const Select = ({ label, name, options, value }: SelectProps) => (
  <label class="filter-field">
    <span>{label}</span>
    <select value={value ?? query.value.get(name) ?? ""} onChange={(event) => change(name, event.currentTarget.value)}>
      {options.map(([option, text]) => <option key={option} value={option}>{text}</option>)}
    </select>
  </label>
)

const change = (name: string, value: string) => {
  if (query.value.has("cursor")) setQuery("cursor", undefined, { replace: true })
  setQuery(name, value === "" ? undefined : value)
}

export const RangeSelect = () => (
  <Select
    name="range"
    label="Range"
    value={chosenRange()}
    options={rangeNames.map((name) => [name, rangeLabels[name]])}
  />
)

/** A text that is part of the address once it is entered. */
export const TextFilter = ({ isFirst, label, name, onEnter }: {
  readonly name: string
  readonly label: string
  readonly isFirst?: boolean
  /** Handles a text itself, and returns whether it did. */
  readonly onEnter?: (text: string) => boolean
}) => (
  <form
    class="filter-field"
    onSubmit={(event) => {
      event.preventDefault()
      const field = event.currentTarget.elements.namedItem(name)
      const text = field instanceof HTMLInputElement ? field.value.trim() : ""
      if (onEnter?.(text) !== true) change(name, text)
    }}
  >
    <label>
      <span>{label}</span>
      <input
        key={query.value.get(name) ?? ""}
        name={name}
        type="search"
        autocomplete="off"
        spellcheck={false}
        maxLength={500}
        defaultValue={query.value.get(name) ?? ""}
        data-filter={isFirst === true ? "" : undefined}
      />
    </label>
  </form>
)

/** The way to older rows. A search that examined its maximum of rows goes on from there. */
export const OlderPages = ({ isComplete, next }: { readonly next: string | null; readonly isComplete: boolean }) => (
  <nav class="pages" aria-label="Pages">
    <span>{isComplete ? "" : "The search examined 20,000 rows and found no more of them among these."}</span>
    {query.value.has("cursor")
      ? <button type="button" class="button" onClick={() => setQuery("cursor", undefined)}>Newest</button>
      : null}
    {next === null
      ? null
      : (
        <button type="button" class="button" onClick={() => setQuery("cursor", next)}>
          {isComplete ? "Older" : "Search on"}
        </button>
      )}
  </nav>
)

/** The data to show: the newest, unless the operator is in the middle of the rows, which would move. */
export function useStill<A>(polled: Polled<A>): Polled<A> {
  const shown = useRef(polled)
  const isBusy = document.activeElement?.matches("[data-row], .cell-tick input") === true
  if (!isBusy || shown.current.data === undefined) shown.current = polled
  return shown.current
}

/** Leaves the rows, so that the next answer is shown. */
export const leaveRows = () => {
  const { activeElement } = document
  if (activeElement instanceof HTMLElement && activeElement.matches("[data-row], .cell-tick input")) {
    activeElement.blur()
  }
}

/** Removes all filters of the screen. */
export const ClearFilters = () =>
  query.value.size === 0 ? null : <a class="button" href={href(path.value)}>Clear filters</a>
