import { config } from "../api.ts"
import { Icon } from "../components/Icon.tsx"
import { TokenForm } from "../components/TokenForm.tsx"
import { navigate, path } from "../Router.ts"

export const Login = () => (
  <main class="login" id="main">
    <div class="login-card">
      <p class="brand">
        <Icon name="completed" />
        <span>Task Service</span>
      </p>
      <h1>Log in</h1>
      <TokenForm onDone={() => path.value === "/login" && navigate("/tasks", { replace: true })} />
    </div>
    <p class="hint">Version {config.value.version}</p>
  </main>
)
