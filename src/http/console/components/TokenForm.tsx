/** Takes a token: on the log-in screen, and in a dialog over any screen when the token ends. */
import { type Signal, useSignal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { submitting, useAction } from "../actions.ts"
import { config } from "../config.ts"
import { developmentToken, dismiss, isKept, logIn, session } from "../session.ts"
import { TextField } from "./Basics.tsx"
import { Dialog } from "./Dialog.tsx"
import { messageOf } from "./Screen.tsx"

interface Entering {
  /** Returns the problem of a token, or undefined after the log-in. */
  readonly onToken: (token: string) => Promise<string | undefined>
  /** Whether one of the log-ins on the screen is in progress. */
  readonly isBusy?: Signal<boolean>
}

const enter = async (onToken: Entering["onToken"], token: string) => {
  const problem = await onToken(token)
  if (problem !== undefined) throw new Error(problem)
}

const errorText = (error: unknown) => error === undefined ? undefined : messageOf(error)

export interface TokenEntryProps extends Entering {
  readonly label: string
  readonly hint: string
  readonly action: string
  readonly children?: ComponentChildren
}

export const TokenEntry = ({ action, children, hint, isBusy, label, onToken }: TokenEntryProps) => {
  const [token, setToken] = useState("")
  const login = useAction(() => {
    paste.forget()
    return enter(onToken, token)
  }, isBusy)
  const paste = useAction(async () => {
    login.forget()
    setToken(await navigator.clipboard.readText())
  })
  const problem = paste.error === undefined
    ? errorText(login.error)
    : "The browser does not allow reading the clipboard. Paste with the keyboard."
  return (
    <form onSubmit={submitting(() => login.run())}>
      <TextField
        label={label}
        isRequired
        error={problem}
        hint={hint}
        type="password"
        name="token"
        spellcheck={false}
        value={token}
        onText={setToken}
        button={<button type="button" class="button" onClick={() => paste.run()}>Paste</button>}
      />
      {children}
      <button type="submit" class="button primary wide" aria-disabled={login.isBusy}>{action}</button>
    </form>
  )
}

const Development = ({ isBusy, onToken, sub }: Entering & { readonly sub: string }) => {
  const [name, setName] = useState(sub)
  const login = useAction(async () => enter(onToken, await developmentToken(name)), isBusy)
  return (
    <form class="development" onSubmit={submitting(() => login.run())}>
      <TextField
        label="Log in as"
        isRequired
        error={errorText(login.error)}
        hint="This service runs with a development key, so it can mint tokens for any user."
        name="sub"
        spellcheck={false}
        maxLength={255}
        required
        value={name}
        onText={setName}
        button={<button type="submit" class="button" aria-disabled={login.isBusy}>Log in</button>}
      />
    </form>
  )
}

export const TokenForm = ({ onDone }: { readonly onDone: () => void }) => {
  const [keep, setKeep] = useState(isKept)
  const isBusy = useSignal(false)
  const onToken = async (token: string, isKept = keep) => {
    const problem = await logIn(token, isKept)
    if (problem === undefined) onDone()
    return problem
  }
  return (
    <>
      <TokenEntry
        label="Token"
        hint="A JWT of your account. It stays in this tab’s memory."
        action={session.value === undefined ? "Log in" : "Continue"}
        onToken={onToken}
        isBusy={isBusy}
      >
        <label class="check">
          <input type="checkbox" checked={keep} onChange={(event) => setKeep(event.currentTarget.checked)} />
          <span>Keep in this tab, so that a reload does not log out</span>
        </label>
      </TokenEntry>
      {config.value.dev_login
        // Such a token is worth nothing elsewhere, so a reload keeps it.
        ? (
          <Development
            sub={session.value?.sub ?? "developer"}
            onToken={(token) => onToken(token, true)}
            isBusy={isBusy}
          />
        )
        : null}
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
