/** Actions of the user that call the service. */
import { useState } from "preact/hooks"

/** Runs an action, one at a time. Its failure is kept until the next attempt, or until `forget`. */
export const useAction = <A extends ReadonlyArray<unknown>>(action: (...input: A) => Promise<unknown>) => {
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const run = async (...input: A) => {
    if (isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      await action(...input)
    } catch (failure) {
      setError(failure)
    }
    setBusy(false)
  }
  return { error, isBusy, run: (...input: A) => void run(...input), forget: () => setError(undefined) }
}

/** Handles the event of a form instead of the browser. */
export const submitting =
  (action: (form: HTMLFormElement) => void) => (event: Event & { readonly currentTarget: HTMLFormElement }) => {
    event.preventDefault()
    action(event.currentTarget)
  }
