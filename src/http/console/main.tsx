/** The start of the console: reads its configuration and shows the screen of the address. */
import { useSignal } from "@preact/signals"
import { render } from "preact"
import { useEffect } from "preact/hooks"
import { useAction } from "./actions.ts"
import { config, loadConfig } from "./api.ts"
import * as clock from "./clock.ts"
import { Layout, OperatorLayout } from "./components/Layout.tsx"
import { Problem } from "./components/Screen.tsx"
import * as keys from "./keys.ts"
import * as live from "./live.ts"
import * as operator from "./operator.ts"
import * as Router from "./Router.ts"
import { screenOf } from "./screens.tsx"
import { Login, OperatorLogin } from "./screens/Login.tsx"
import * as session from "./session.ts"

const Failure = (props: { readonly error: unknown; readonly onRetry: () => void }) => (
  <main class="login">
    <Problem {...props} />
  </main>
)

/** The half of operators: it has a session of its own. */
const Operators = () => {
  const { error, run } = useAction(operator.load)
  useEffect(run, [])
  if (error !== undefined) return <Failure error={error} onRetry={run} />
  if (operator.operator.value === undefined) return null
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
  if (!isLoaded.value) return null
  if (Router.isOps.value) return <Operators />
  const user = session.session.value
  if (user === undefined) return <Login />
  return <Layout key={user.sub}>{screenOf(Router.path.value)}</Layout>
}

clock.start()
live.start()
keys.start()
session.start()
Router.start()
const root = document.getElementById("app")
if (root !== null) render(<App />, root)
