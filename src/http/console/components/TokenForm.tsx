/** Takes a token: on the log-in screen, and in a dialog over any screen when the token ends. */
import { useState } from "preact/hooks"
import { config } from "../api.ts"
import { developmentToken, dismiss, isKept, logIn, session } from "../session.ts"
import { Field } from "./Basics.tsx"
import { Dialog } from "./Dialog.tsx"
import { messageOf } from "./Screen.tsx"

const Development = (
  { onToken, sub }: { readonly sub: string; readonly onToken: (token: string) => Promise<void> }
) => {
  const [name, setName] = useState(sub)
  const [error, setError] = useState<string>()
  const submit = async () => {
    try {
      await onToken(await developmentToken(name))
    } catch (failure) {
      setError(messageOf(failure))
    }
  }
  return (
    <form
      class="development"
      onSubmit={(event) => {
        event.preventDefault()
        void submit()
      }}
    >
      <Field
        label="Log in as"
        isRequired
        error={error}
        hint="This service runs with a development key, so it can mint tokens for any user."
      >
        {(control) => (
          <div class="inline">
            <input
              {...control}
              name="sub"
              autocomplete="off"
              spellcheck={false}
              maxLength={255}
              required
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
            <button type="submit" class="button">Log in</button>
          </div>
        )}
      </Field>
    </form>
  )
}

export const TokenForm = ({ onDone }: { readonly onDone: () => void }) => {
  const [token, setToken] = useState("")
  const [keep, setKeep] = useState(isKept)
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (text: string) => {
    if (isBusy) return
    setBusy(true)
    const problem = await logIn(text, keep)
    setBusy(false)
    setError(problem)
    if (problem === undefined) onDone()
  }
  const paste = async () => {
    try {
      setToken(await navigator.clipboard.readText())
    } catch {
      setError("The browser does not allow reading the clipboard. Paste with the keyboard.")
    }
  }
  return (
    <>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void submit(token)
        }}
      >
        <Field label="Token" isRequired error={error} hint="A JWT of your account. It stays in this tab’s memory.">
          {(control) => (
            <div class="inline">
              <input
                {...control}
                type="password"
                name="token"
                autocomplete="off"
                spellcheck={false}
                value={token}
                onInput={(event) => setToken(event.currentTarget.value)}
              />
              <button type="button" class="button" onClick={() => void paste()}>Paste</button>
            </div>
          )}
        </Field>
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>Keep in this tab, so that a reload does not log out</span>
        </label>
        <button type="submit" class="button primary wide" aria-disabled={isBusy}>
          {session.value === undefined ? "Log in" : "Continue"}
        </button>
      </form>
      {config.value.dev_login ? <Development sub={session.value?.sub ?? "developer"} onToken={submit} /> : null}
    </>
  )
}

const reasons = {
  soon: "Your token ends within two minutes.",
  refused: "Your token has expired or was revoked."
}

/** Drafts stay, and failed requests are sent again. */
export const Renewal = ({ reason }: { readonly reason: keyof typeof reasons }) => (
  <Dialog title={reason === "soon" ? "Your session ends soon" : "Your session has ended"} onClose={dismiss}>
    <p>
      {reasons[reason]} Give another one for{" "}
      <strong>
        <bdi>{session.value?.sub}</bdi>
      </strong>{" "}
      to go on. Nothing is lost.
    </p>
    <TokenForm onDone={() => {}} />
    <footer>
      <button type="button" class="button" onClick={dismiss}>{reason === "soon" ? "Later" : "Log out"}</button>
    </footer>
  </Dialog>
)
