/** Actions of the user that call the service. */
import { type Signal, useSignal } from "@preact/signals"
import { useState } from "preact/hooks"

/**
 * Runs an action, one at a time, and never together with others that have the same `shared`. Its failure is kept until the
 * next attempt, or until `forget`.
 */
export const useAction = <A extends ReadonlyArray<unknown>>(
  action: (...input: A) => Promise<unknown>,
  shared?: Signal<boolean>
) => {
  const [error, setError] = useState<unknown>()
  const own = useSignal(false)
  const isBusy = shared ?? own
  const run = async (...input: A) => {
    if (isBusy.value) return
    isBusy.value = true
    setError(undefined)
    try {
      await action(...input)
    } catch (failure) {
      setError(failure)
    }
    isBusy.value = false
  }
  return { error, isBusy: isBusy.value, run: (...input: A) => void run(...input), forget: () => setError(undefined) }
}

/** Handles the event of a form instead of the browser. */
export const submitting =
  (action: (form: HTMLFormElement) => void) => (event: Event & { readonly currentTarget: HTMLFormElement }) => {
    event.preventDefault()
    action(event.currentTarget)
  }
