import { config } from "../api.ts"
import { Icon } from "../components/Icon.tsx"
import { TokenForm } from "../components/TokenForm.tsx"
import { href, navigate, path } from "../Router.ts"

export const Login = () => (
  <main class="login" id="main">
    <div class="login-card">
      <p class="brand">
        <Icon name="completed" />
        <span>Task Service</span>
      </p>
      <h1>Log in</h1>
      <TokenForm onDone={() => path.value === "/login" && navigate("/tasks", { replace: true })} />
      {config.value.audiences.includes("operators") ? <a href={href("/ops")}>Log in as an operator</a> : null}
    </div>
    <p class="hint">Version {config.value.version}</p>
  </main>
)
