/** The screens by their paths. */
import type { ComponentChildren } from "preact"
import { Empty, Screen } from "./components/Screen.tsx"
import { href, isOps, query } from "./Router.ts"
import { Inbox } from "./screens/Inbox.tsx"
import { NewTask } from "./screens/NewTask.tsx"
import { OpsClocks } from "./screens/ops/Clocks.tsx"
import { OpsCluster } from "./screens/ops/Cluster.tsx"
import { OpsErrors } from "./screens/ops/Errors.tsx"
import { Overview } from "./screens/ops/Overview.tsx"
import { OpsRevocations } from "./screens/ops/Revocations.tsx"
import { OpsTask } from "./screens/ops/Task.tsx"
import { Tasks } from "./screens/ops/Tasks.tsx"
import { OpsWebhooks } from "./screens/ops/Webhooks.tsx"
import { TaskList } from "./screens/TaskList.tsx"
import { TaskScreen } from "./screens/TaskScreen.tsx"

type Show = (part: string) => ComponentChildren

/** A path may have one variable part. */
const screens: ReadonlyArray<readonly [path: RegExp, show: Show]> = [
  [/^\/(?:login|tasks)$/, () => <TaskList />],
  [/^\/inbox$/, () => <Inbox />],
  [/^\/new$/, () => <NewTask key={query.value.toString()} />],
  [/^\/tasks\/([^/]+)$/, (uuid) => <TaskScreen key={uuid} uuid={uuid} />],
  [/^\/ops$/, () => <Overview />],
  [/^\/ops\/tasks$/, () => <Tasks key={query.value.toString()} />],
  [/^\/ops\/tasks\/([^/]+)$/, (uuid) => <OpsTask key={uuid} uuid={uuid} />],
  [/^\/ops\/errors$/, () => <OpsErrors key={query.value.toString()} />],
  [/^\/ops\/clocks$/, () => <OpsClocks />],
  [/^\/ops\/webhooks$/, () => <OpsWebhooks key={query.value.toString()} />],
  [/^\/ops\/cluster$/, () => <OpsCluster />],
  [/^\/ops\/revocations$/, () => <OpsRevocations key={query.value.toString()} />]
]

const NotFound = () => (
  <Screen title="Not found">
    <Empty title="There is no screen at this address.">
      {isOps.value
        ? <a class="button" href={href("/ops")}>To the overview</a>
        : <a class="button" href={href("/tasks")}>To the tasks</a>}
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
