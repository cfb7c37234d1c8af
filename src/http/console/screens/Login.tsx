/** The log-in of users, and that of operators, who exchange a token for a session. */
import type { ComponentChildren } from "preact"
import { Icon } from "../components/Icon.tsx"
import { TokenEntry, TokenForm } from "../components/TokenForm.tsx"
import { config } from "../config.ts"
import * as operator from "../operator.ts"
import { href, navigate, path } from "../Router.ts"

const Page = ({ children, title }: { readonly title: string; readonly children: ComponentChildren }) => (
  <main class="login" id="main">
    <div class="login-card">
      <p class="brand">
        <Icon name="completed" />
        <span>Task Service</span>
      </p>
      <h1>{title}</h1>
      {children}
    </div>
    <p class="hint">Version {config.value.version}</p>
  </main>
)

export const Login = () => (
  <Page title="Log in">
    <TokenForm onDone={() => path.value === "/login" && navigate("/tasks", { replace: true })} />
    {config.value.audiences.includes("operators") ? <a href={href("/ops")}>Log in as an operator</a> : null}
  </Page>
)

export const OperatorLogin = () => (
  <Page title="Log in as an operator">
    <TokenEntry
      label="Operator token"
      hint="One of the service’s internal tokens, or a read token. The browser keeps a session instead of it."
      action="Log in"
      onToken={operator.logIn}
    />
    {config.value.audiences.includes("users") ? <a href={href("/tasks")}>Log in as a user</a> : null}
  </Page>
)
