/** A modal `<dialog>`: the browser traps the focus, restores it when the dialog closes, and closes it on Esc. */
import type { ComponentChildren } from "preact"
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { Icon } from "./Icon.tsx"
import { Problem } from "./Screen.tsx"

export interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

export const Dialog = ({ children, onClose, title }: DialogProps) => {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  // A layout effect, so that the next key already finds the focus in its place. Only `close` restores it: the page is inert until then.
  useLayoutEffect(() => {
    const dialog = ref.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      // Browsers may close it on Esc without `cancel`; after the removal the event comes from the effect.
      onClose={() => ref.current !== null && onClose()}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="button quiet icon-only" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  )
}

export interface ConfirmProps {
  readonly title: string
  readonly action: string
  /** A success closes the dialog; a failure is shown in it. */
  readonly onConfirm: () => Promise<void>
  readonly onClose: () => void
  readonly children: ComponentChildren
  readonly isDangerous?: boolean
}

/** Confirms an action. The button that goes back has the initial focus when the action destroys something. */
export const Confirm = ({ action, children, isDangerous, onClose, onConfirm, title }: ConfirmProps) => {
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const confirm = async () => {
    if (isBusy) return
    setBusy(true)
    try {
      await onConfirm()
      onClose()
    } catch (failure) {
      setError(failure)
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void confirm()
        }}
      >
        {children}
        {error === undefined ? null : <Problem error={error} />}
        <footer>
          <button type="button" class="button" onClick={onClose}>Back</button>
          <button type="submit" class={`button ${isDangerous === true ? "danger" : "primary"}`} aria-disabled={isBusy}>
            {action}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}
