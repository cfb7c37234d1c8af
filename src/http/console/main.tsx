/** The start of the console: reads its configuration and shows the screen of the address. */
import { useSignal } from "@preact/signals"
import { type ComponentChildren, render } from "preact"
import { useEffect } from "preact/hooks"
import { useAction } from "./actions.ts"
import { config, loadConfig } from "./api.ts"
import * as clock from "./clock.ts"
import { Layout, OperatorLayout } from "./components/Layout.tsx"
import { Empty, Problem, Screen } from "./components/Screen.tsx"
import * as keys from "./keys.ts"
import * as live from "./live.ts"
import * as operator from "./operator.ts"
import * as preferences from "./preferences.ts"
import * as Router from "./Router.ts"
import { Inbox } from "./screens/Inbox.tsx"
import { Login, OperatorLogin } from "./screens/Login.tsx"
import { NewTask } from "./screens/NewTask.tsx"
import { OpsAudit } from "./screens/ops/Audit.tsx"
import { OpsBulk, OpsBulkList } from "./screens/ops/Bulk.tsx"
import { OpsClocks } from "./screens/ops/Clocks.tsx"
import { OpsCluster } from "./screens/ops/Cluster.tsx"
import { OpsErrors } from "./screens/ops/Errors.tsx"
import { Overview } from "./screens/ops/Overview.tsx"
import { OpsRevocations } from "./screens/ops/Revocations.tsx"
import { OpsSchedules } from "./screens/ops/Schedules.tsx"
import { OpsStuck } from "./screens/ops/Stuck.tsx"
import { OpsTask } from "./screens/ops/Task.tsx"
import { Tasks } from "./screens/ops/Tasks.tsx"
import { OpsUser } from "./screens/ops/User.tsx"
import { OpsWebhooks } from "./screens/ops/Webhooks.tsx"
import { EditSchedule, NewSchedule } from "./screens/ScheduleForm.tsx"
import { Schedules } from "./screens/Schedules.tsx"
import { ScheduleScreen } from "./screens/ScheduleScreen.tsx"
import { TaskList } from "./screens/TaskList.tsx"
import { TaskScreen } from "./screens/TaskScreen.tsx"
import { OpsUsage, Usage } from "./screens/Usage.tsx"
import * as session from "./session.ts"

/** The screens by their paths, which may have one variable part. */
const screens: ReadonlyArray<readonly [path: RegExp, show: (part: string) => ComponentChildren]> = [
  [/^\/(?:login|tasks)$/, () => <TaskList />],
  [/^\/inbox$/, () => <Inbox />],
  [/^\/new$/, () => <NewTask key={Router.query.value.toString()} />],
  [/^\/tasks\/([^/]+)$/, (uuid) => <TaskScreen key={uuid} uuid={uuid} />],
  [/^\/ops$/, () => <Overview />],
  [/^\/ops\/tasks$/, () => <Tasks key={Router.query.value.toString()} />],
  [/^\/ops\/tasks\/([^/]+)$/, (uuid) => <OpsTask key={uuid} uuid={uuid} />],
  [/^\/ops\/errors$/, () => <OpsErrors key={Router.query.value.toString()} />],
  [/^\/ops\/stuck$/, () => <OpsStuck />],
  [/^\/ops\/clocks$/, () => <OpsClocks />],
  [/^\/ops\/webhooks$/, () => <OpsWebhooks key={Router.query.value.toString()} />],
  [/^\/ops\/cluster$/, () => <OpsCluster />],
  [/^\/ops\/bulk$/, () => <OpsBulkList />],
  [/^\/ops\/bulk\/([^/]+)$/, (id) => <OpsBulk key={id} id={id} />],
  [/^\/ops\/users\/([^/]+)$/, (sub) => <OpsUser key={sub} sub={decodeURIComponent(sub)} />],
  [/^\/ops\/audit$/, () => <OpsAudit key={Router.query.value.toString()} />],
  [/^\/ops\/revocations$/, () => <OpsRevocations key={Router.query.value.toString()} />]
]

/** The screens of schedules, which a service may lack. */
const scheduleScreens: typeof screens = [
  [/^\/schedules$/, () => <Schedules />],
  [/^\/schedules\/new$/, () => <NewSchedule />],
  [/^\/schedules\/([^/]+)\/edit$/, (id) => <EditSchedule key={id} id={id} />],
  [/^\/schedules\/([^/]+)$/, (id) => <ScheduleScreen key={id} id={id} />],
  [/^\/ops\/schedules$/, () => <OpsSchedules key={Router.query.value.toString()} />]
]

const usageScreens: typeof screens = [[/^\/usage$/, () => <Usage />], [/^\/ops\/usage$/, () => <OpsUsage />]]

const NotFound = () => (
  <Screen title="Not found">
    <Empty title="There is no screen at this address.">
      {Router.isOps.value
        ? <a class="button" href={Router.href("/ops")}>To the overview</a>
        : <a class="button" href={Router.href("/tasks")}>To the tasks</a>}
    </Empty>
  </Screen>
)

const screenOf = (path: string): ComponentChildren => {
  const { schedules, usage } = config.value
  for (const [pattern, show] of [...screens, ...schedules ? scheduleScreens : [], ...usage ? usageScreens : []]) {
    const match = pattern.exec(path)
    if (match !== null) return show(match[1] ?? "")
  }
  return <NotFound />
}

const Failure = (props: { readonly error: unknown; readonly onRetry: () => void }) => (
  <main class="login">
    <Problem {...props} />
  </main>
)

/** What `index.html` shows already while the script is on its way. */
const Loading = () => (
  <main class="login" aria-busy="true">
    <p class="brand">Task Service</p>
  </main>
)

/** The half of operators: it has a session of its own. */
const Operators = () => {
  const { error, run } = useAction(operator.load)
  useEffect(run, [])
  if (error !== undefined) return <Failure error={error} onRetry={run} />
  if (operator.operator.value === undefined) return <Loading />
  if (operator.operator.value === null) return <OperatorLogin />
  return <OperatorLayout>{screenOf(Router.path.value)}</OperatorLayout>
}

const App = () => {
  const isLoaded = useSignal(false)
  const { error, run } = useAction(async () => {
    await loadConfig()
    if (!config.value.audiences.includes("users")) Router.home.value = "/ops"
    isLoaded.value = true
  })
  useEffect(run, [])
  if (error !== undefined) return <Failure error={error} onRetry={run} />
  if (!isLoaded.value) return <Loading />
  if (Router.isOps.value) return <Operators />
  const user = session.session.value
  if (user === undefined) return <Login />
  return <Layout key={user.sub}>{screenOf(Router.path.value)}</Layout>
}

preferences.start()
clock.start()
live.start()
keys.start()
session.start()
Router.start()
const root = document.getElementById("app")
if (root !== null) render(<App />, root)
