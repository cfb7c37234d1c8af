/** Screens by their paths. A part of them is loaded when it is first shown: the first view of a visitor is small. */
import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect } from "preact/hooks"
import { useAction } from "../actions.ts"
import * as Router from "../Router.ts"
import { Empty, Problem, Screen, Skeleton } from "./Screen.tsx"

/** Screens by their paths, which may have one variable part. */
export type Screens = ReadonlyArray<readonly [path: RegExp, show: (part: string) => ComponentChildren]>

export type Part = {
  readonly paths: RegExp
  /** Whether the service has what the screens show; always, if absent. */
  readonly isServed?: () => boolean
} & ({ readonly screens: Screens } | { readonly load: () => Promise<{ readonly screens: Screens }> })

const loaded = signal<ReadonlyMap<Part, Screens>>(new Map())

const screensOf = (part: Part) => "screens" in part ? part.screens : loaded.value.get(part)

const NotFound = () => (
  <Screen title="Not found">
    <Empty title="There is no screen at this address.">
      {Router.isOps.value
        ? <a class="button" href={Router.href("/ops")}>To the overview</a>
        : <a class="button" href={Router.href("/tasks")}>To the tasks</a>}
    </Empty>
  </Screen>
)

/** Loads a part. After an update of the service its file may be gone: then the page has to be loaded again. */
const Loading = ({ part }: { readonly part: Exclude<Part, { readonly screens: Screens }> }) => {
  const { error, run } = useAction(async () => {
    const { screens } = await part.load()
    loaded.value = new Map([...loaded.value, [part, screens]])
  })
  useEffect(run, [])
  return (
    <main class="screen" id="main" aria-busy={error === undefined}>
      {error === undefined ? <Skeleton /> : <Problem error={error} onRetry={() => location.reload()} />}
    </main>
  )
}

/** The screen at a path. */
export const Shown = ({ parts, path }: { readonly parts: ReadonlyArray<Part>; readonly path: string }) => {
  const part = parts.find(({ isServed, paths }) => paths.test(path) && isServed?.() !== false)
  if (part === undefined) return <NotFound />
  const screens = screensOf(part)
  if (screens === undefined) return "load" in part ? <Loading key={part.paths.source} part={part} /> : null
  for (const [pattern, show] of screens) {
    const match = pattern.exec(path)
    if (match !== null) return <>{show(match[1] ?? "")}</>
  }
  return <NotFound />
}
