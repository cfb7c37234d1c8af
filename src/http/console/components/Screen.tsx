/** The frame of a screen, and the states that every list has: first load, empty, error, stale. */
import type { ComponentChildren } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { ApiError } from "../../client/promise/ApiErrors.ts"
import { interrupted } from "../active.ts"
import { clockTime } from "../clock.ts"
import type { Polled } from "../poll.ts"
import { zone } from "../preferences.ts"
import { isOps, path, restore, returnsToLink } from "../Router.ts"
import { Icon } from "./Icon.tsx"

/** The path whose heading had the focus last: the first screen of a visit does not take it. */
let focused: string | undefined

export interface ScreenProps {
  readonly title: string
  /** Shown instead of the title where that is only a name for the browser's tab. */
  readonly heading?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}

/** Each change of the screen sets the title of the document and moves the focus to the heading. */
export const Screen = ({ actions, children, heading, title }: ScreenProps) => {
  const ref = useRef<HTMLHeadingElement>(null)
  const waiting = isOps.value ? 0 : interrupted().length
  useEffect(() => {
    document.title = `${waiting === 0 ? "" : `(${waiting}) `}${title} · ${isOps.value ? "Operators" : "Tasks"}`
  }, [title, waiting])
  useLayoutEffect(() => {
    if (focused !== undefined && focused !== path.value && !returnsToLink()) ref.current?.focus({ preventScroll: true })
    focused = path.value
  }, [path.value])
  return (
    <main class="screen" id="main">
      <header class="screen-head">
        <h1 ref={ref} tabIndex={-1}>{heading ?? title}</h1>
        {actions === undefined ? null : <div class="actions">{actions}</div>}
      </header>
      {children}
    </main>
  )
}

/** Grey rows, if the first load takes longer than 150 ms. */
export const Skeleton = () => {
  const [isShown, setShown] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150)
    return () => clearTimeout(timer)
  }, [])
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {isShown ? Array.from({ length: 4 }, (_, index) => <span key={index} />) : null}
    </div>
  )
}

export const Empty = ({ children, title }: { readonly title: string; readonly children?: ComponentChildren }) => (
  <div class="empty">
    <p class="empty-title">{title}</p>
    {children}
  </div>
)

export const messageOf = (error: unknown): string => error instanceof Error ? error.message : String(error)

/** A failure in words, if there is one, with the id that finds it in the service's logs. */
export const Problem = (
  { error, onRetry }: { readonly error: unknown; readonly onRetry?: (() => void) | undefined }
) =>
  error === undefined ? null : (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div>
        <p>{messageOf(error)}</p>
        {error instanceof ApiError && error.requestId !== null
          ? (
            <p class="detail">
              Request <code>{error.requestId}</code>
            </p>
          )
          : null}
      </div>
      {onRetry === undefined ? null : <button type="button" class="button" onClick={onRetry}>Try again</button>}
    </div>
  )

/** Shows polled data: a skeleton before the first answer, then the data, with its age while reads fail. */
export function Loaded<A>({ children, polled, refresh }: {
  readonly polled: Polled<A>
  readonly refresh: () => void
  readonly children: (data: A) => ComponentChildren
}) {
  const { at, data, error } = polled
  useLayoutEffect(restore, [data === undefined])
  if (data === undefined) return error === undefined ? <Skeleton /> : <Problem error={error} onRetry={refresh} />
  return (
    <>
      {error === undefined ? null : (
        <p class="stale" role="status">
          <Icon name="warning" />
          <span>As of {clockTime(at, zone.value)}: {messageOf(error)}</span>
          <button type="button" class="button quiet" onClick={refresh}>Try again</button>
        </p>
      )}
      {children(data)}
    </>
  )
}
