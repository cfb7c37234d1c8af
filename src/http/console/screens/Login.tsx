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
      {config.value.audiences.includes("users")
        ? <TokenForm onDone={() => path.value === "/login" && navigate("/tasks", { replace: true })} />
        : <p>The console of this service is for its operators only.</p>}
    </div>
    <p class="hint">Version {config.value.version}</p>
  </main>
)
