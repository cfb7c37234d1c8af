/** A long list, a page at a time: fifty items, or fewer long ones. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"

const pageItems = 50
/** Characters of text that a page shows without a delay that one would notice. */
const pageCharacters = 200_000

/** The end of the page that begins at `from`. It has one item at least. */
function endOf<A>(items: ReadonlyArray<A>, from: number, weigh: (item: A) => number): number {
  let characters = 0
  const end = Math.min(items.length, from + pageItems)
  const index = items.slice(from, end).findIndex((item) => (characters += weigh(item)) > pageCharacters)
  return index < 0 ? end : from + Math.max(1, index)
}

/** With `isNewestFirst` the list begins at its end. */
export function Paged<A>({ children, isNewestFirst = false, items, weigh = () => 0, what }: {
  readonly items: ReadonlyArray<A>
  readonly what: string
  readonly isNewestFirst?: boolean
  /** Characters of an item. */
  readonly weigh?: (item: A) => number
  readonly children: (shown: ReadonlyArray<A>) => ComponentChildren
}) {
  const [pages, setPages] = useState(1)
  const ordered = isNewestFirst ? items.toReversed() : items
  let count = 0
  for (let page = 0; page < pages; page++) count = endOf(ordered, count, weigh)
  return (
    <>
      {children(ordered.slice(0, count))}
      {count >= items.length ? null : (
        <p>
          <button type="button" class="button" onClick={() => setPages(pages + 1)}>
            Show {endOf(ordered, count, weigh) - count} more of {items.length} {what}
          </button>
        </p>
      )}
    </>
  )
}
