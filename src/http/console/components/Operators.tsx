/** Parts of the operators' screens: reads of a list, filters in the address, and pages by cursor. */
import type { ComponentChildren } from "preact"
import { useRef } from "preact/hooks"
import { useKeys } from "../keys.ts"
import { get, intervals, mayChange } from "../operator.ts"
import { type Polled, usePoll } from "../poll.ts"
import { href, path, query, setQuery } from "../Router.ts"
import { Select } from "./Filters.tsx"
import { Rows, type TableProps } from "./Table.tsx"

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

/** The start of the chosen range, and the named filters of the address. */
export const chosen = (...names: ReadonlyArray<string>): Readonly<Record<string, string | null>> => ({
  from: new Date(Date.now() - ranges[chosenRange()] * 3_600_000).toISOString(),
  ...Object.fromEntries(names.map((name) => [name, query.value.get(name)]))
})

export const RangeSelect = () => (
  <Select
    name="range"
    label="Range"
    value={chosenRange()}
    options={rangeNames.map((name) => [name, rangeLabels[name]])}
  />
)

/** The way to older rows. A search that examined its maximum of rows goes on from there. */
export const OlderPages = ({ isComplete, next }: { readonly next: string | null; readonly isComplete: boolean }) =>
  isComplete && next === null && !query.value.has("cursor") ? null : (
    <nav class="pages" aria-label="Pages">
      <span>{isComplete ? "" : "The search examined 20,000 rows and found no more of them among these."}</span>
      {query.value.has("cursor")
        ? (
          <button
            type="button"
            class="button"
            onClick={() => setQuery("cursor", undefined)}
          >
            Newest
          </button>
        )
        : null}
      {next === null
        ? null
        : (
          <button
            type="button"
            class="button"
            onClick={() => setQuery("cursor", next)}
          >
            {isComplete ? "Older" : "Search on"}
          </button>
        )}
    </nav>
  )

/** What may be done with a row. */
export const ActionCell = ({ children }: { readonly children: ComponentChildren }) =>
  mayChange() ? <td class="cell-action">{children}</td> : null

/** The columns of a list whose rows end with an `ActionCell`. */
export const withAction = (columns: ReadonlyArray<string>) => mayChange() ? [...columns, "Actions"] : columns

/** A page of a list, or what is shown when it has none. */
export function PagedRows<A>(
  { children, empty, page: { complete = true, data, next = null }, ...table }: Omit<TableProps, "children"> & {
    readonly page: { readonly data: ReadonlyArray<A>; readonly next?: string | null; readonly complete?: boolean }
    readonly empty: ComponentChildren
    readonly children: (row: A) => ComponentChildren
  }
) {
  return (
    <div>
      {data.length === 0 ? empty : <Rows {...table}>{data.map(children)}</Rows>}
      <OlderPages next={next} isComplete={complete} />
    </div>
  )
}

const isInRows = (element: Element | null) => element?.matches("[data-row], .cell-tick input") === true

/** The data to show: the newest, unless the operator is in the middle of the rows, which would move. */
function useStill<A>(polled: Polled<A>): Polled<A> {
  const shown = useRef(polled)
  if (!isInRows(document.activeElement) || shown.current.data === undefined) shown.current = polled
  return shown.current
}

/** Leaves the rows, so that the next answer is shown. */
const leaveRows = () => {
  const { activeElement } = document
  if (activeElement instanceof HTMLElement && isInRows(activeElement)) activeElement.blur()
}

/** Polls a call of the operators' interface while its screen is shown. */
export function useRead<A>(path: () => string, interval = intervals.list) {
  return usePoll<A>((signal) => get(path(), signal), () => interval, [])
}

/** The rows of a screen, which `r` reads immediately. */
export function useRows<A>(path: () => string, interval?: number) {
  const read = useRead<A>(path, interval)
  const refresh = () => {
    leaveRows()
    read.refresh()
  }
  useKeys({ r: refresh })
  return { polled: useStill(read.state.value), refresh }
}

export const ClearFilters = () =>
  query.value.size === 0 ? null : <a class="button" href={href(path.value)}>Clear filters</a>
