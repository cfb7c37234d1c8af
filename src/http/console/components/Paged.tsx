/** A long list, fifty items at a time. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"

const pageSize = 50

/** With `isNewestFirst` the list begins at its end. */
export function Paged<A>({ children, isNewestFirst = false, items, what }: {
  readonly items: ReadonlyArray<A>
  readonly what: string
  readonly isNewestFirst?: boolean
  readonly children: (shown: ReadonlyArray<A>) => ComponentChildren
}) {
  const [count, setCount] = useState(pageSize)
  const left = items.length - count
  return (
    <>
      {children(isNewestFirst ? items.slice(-count).toReversed() : items.slice(0, count))}
      {left <= 0 ? null : (
        <p>
          <button type="button" class="button" onClick={() => setCount(count + pageSize)}>
            Show {Math.min(pageSize, left)} more of {items.length} {what}
          </button>
        </p>
      )}
    </>
  )
}
