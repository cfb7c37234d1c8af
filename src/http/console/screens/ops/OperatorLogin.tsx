/** Exchanges an operator's token for a session. */
import { useState } from "preact/hooks"
import { config } from "../../api.ts"
import { Field } from "../../components/Basics.tsx"
import { Icon } from "../../components/Icon.tsx"
import { logIn } from "../../operator.ts"
import { href } from "../../Router.ts"

export const OperatorLogin = () => {
  const [token, setToken] = useState("")
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const submit = async () => {
    if (isBusy) return
    setBusy(true)
    const problem = await logIn(token)
    setBusy(false)
    setError(problem)
  }
  return (
    <main class="login" id="main">
      <div class="login-card">
        <p class="brand">
          <Icon name="completed" />
          <span>Task Service</span>
        </p>
        <h1>Log in as an operator</h1>
        <form
          onSubmit={(event) => {
            event.preventDefault()
            void submit()
          }}
        >
          <Field
            label="Operator token"
            isRequired
            error={error}
            hint="One of the service’s internal tokens, or a read token. The browser keeps a session instead of it."
          >
            {(control) => (
              <input
                {...control}
                type="password"
                name="token"
                autocomplete="off"
                spellcheck={false}
                value={token}
                onInput={(event) => setToken(event.currentTarget.value)}
              />
            )}
          </Field>
          <button type="submit" class="button primary wide" aria-disabled={isBusy}>Log in</button>
        </form>
        {config.value.audiences.includes("users") ? <a href={href("/tasks")}>Log in as a user</a> : null}
      </div>
      <p class="hint">Version {config.value.version}</p>
    </main>
  )
}
