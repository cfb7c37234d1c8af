/** The start of the console: reads its configuration and shows the screen of the address. */
import { useSignal } from "@preact/signals"
import { render } from "preact"
import { useEffect } from "preact/hooks"
import { loadConfig } from "./api.ts"
import * as clock from "./clock.ts"
import { Layout } from "./components/Layout.tsx"
import { Problem } from "./components/Screen.tsx"
import * as keys from "./keys.ts"
import * as live from "./live.ts"
import * as Router from "./Router.ts"
import { screenOf } from "./screens.tsx"
import { Login } from "./screens/Login.tsx"
import * as session from "./session.ts"

const App = () => {
  const failure = useSignal<unknown>(undefined)
  const isLoaded = useSignal(false)
  const load = async () => {
    try {
      failure.value = undefined
      await loadConfig()
      isLoaded.value = true
    } catch (error) {
      failure.value = error
    }
  }
  useEffect(() => void load(), [])
  if (failure.value !== undefined) {
    return (
      <main class="login">
        <Problem error={failure.value} onRetry={() => void load()} />
      </main>
    )
  }
  if (!isLoaded.value) return null
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
