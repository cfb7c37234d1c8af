/** The start of the console: reads its configuration and shows the screen of the address. */
import { useSignal } from "@preact/signals"
import { render } from "preact"
import { useEffect } from "preact/hooks"
import { useAction } from "./actions.ts"
import * as clock from "./clock.ts"
import { Layout, OperatorLayout } from "./components/Layout.tsx"
import { type Part, Shown } from "./components/Parts.tsx"
import { Problem } from "./components/Screen.tsx"
import { config, loadConfig } from "./config.ts"
import * as keys from "./keys.ts"
import * as live from "./live.ts"
import * as operator from "./operator.ts"
import * as preferences from "./preferences.ts"
import * as Router from "./Router.ts"
import { Login, OperatorLogin } from "./screens/Login.tsx"
import { TaskList } from "./screens/TaskList.tsx"
import { extensions, isServed } from "./served.ts"
import * as session from "./session.ts"

const loadTasks = () => import("./screens/task/screens.tsx")

/** What the first view needs. Each other part is loaded when one of its paths is first shown. */
const parts: ReadonlyArray<Part> = [
  { paths: /^\/(?:login|tasks)$/, screens: [[/^/, () => <TaskList />]] },
  { paths: /^\/(?:inbox|new|tasks)/, load: loadTasks },
  ...extensions.map(({ load, name, paths }) => ({ paths, load, isServed: () => isServed(name) })),
  { paths: /^\/ops/, load: () => import("./screens/ops/screens.tsx") }
]

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
  return (
    <OperatorLayout>
      <Shown parts={parts} path={Router.path.value} />
    </OperatorLayout>
  )
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
  return (
    <Layout key={user.sub}>
      <Shown parts={parts} path={Router.path.value} />
    </Layout>
  )
}

preferences.start()
clock.start()
live.start()
keys.start()
session.start()
Router.start()
// What a visitor of the list opens next. If it fails now, it is loaded when it is shown.
if (!Router.isOps.value) setTimeout(() => loadTasks().catch(() => undefined), 3000)
const root = document.getElementById("app")
if (root !== null) render(<App />, root)
