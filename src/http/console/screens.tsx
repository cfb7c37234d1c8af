/** The screens by their paths. */
import type { ComponentChildren } from "preact"
import { Empty, Screen } from "./components/Screen.tsx"
import { href, query } from "./Router.ts"
import { Inbox } from "./screens/Inbox.tsx"
import { NewTask } from "./screens/NewTask.tsx"
import { TaskList } from "./screens/TaskList.tsx"
import { TaskScreen } from "./screens/TaskScreen.tsx"

type Show = (part: string) => ComponentChildren

/** A path may have one variable part. */
const screens: ReadonlyArray<readonly [path: RegExp, show: Show]> = [
  [/^\/(?:login|tasks)$/, () => <TaskList />],
  [/^\/inbox$/, () => <Inbox />],
  [/^\/new$/, () => <NewTask key={query.value.toString()} />],
  [/^\/tasks\/([^/]+)$/, (uuid) => <TaskScreen key={uuid} uuid={uuid} />]
]

const NotFound = () => (
  <Screen title="Not found">
    <Empty title="There is no screen at this address.">
      <a class="button" href={href("/tasks")}>To the tasks</a>
    </Empty>
  </Screen>
)

export const screenOf = (path: string): ComponentChildren => {
  for (const [pattern, show] of screens) {
    const match = pattern.exec(path)
    if (match !== null) return show(match[1] ?? "")
  }
  return <NotFound />
}
