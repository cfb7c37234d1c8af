/** A modal `<dialog>`: the browser traps the focus, restores it when the dialog closes, and closes it on Esc. */
import type { ComponentChildren } from "preact"
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { submitting, useAction } from "../actions.ts"
import { IconButton, TextField } from "./Basics.tsx"
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
        <IconButton icon="close" label="Close" onClick={onClose} />
      </header>
      {children}
    </dialog>
  )
}

export interface ConfirmProps extends DialogProps {
  readonly action: string
  /** A success closes the dialog; a failure is shown in it. */
  readonly onConfirm: () => Promise<void>
  readonly isDangerous?: boolean
}

/** Confirms an action. The button that goes back has the initial focus when the action destroys something. */
export const Confirm = ({ action, children, isDangerous, onClose, onConfirm, title }: ConfirmProps) => {
  const { error, isBusy, run } = useAction(async () => {
    await onConfirm()
    onClose()
  })
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submitting(() => run())}>
        {children}
        <Problem error={error} />
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

/** Characters of a reason to cancel: the service's limit. */
const maxReason = 1000

export const CancelTask = ({ children, onCancel, onClose }: Omit<DialogProps, "title"> & {
  readonly onCancel: (options: { readonly reason?: string }) => Promise<void>
}) => {
  const [reason, setReason] = useState("")
  const given = reason.trim()
  return (
    <Confirm
      title="Cancel this task?"
      action="Cancel the task"
      isDangerous
      onConfirm={() => onCancel(given === "" ? {} : { reason: given })}
      onClose={onClose}
    >
      <p>{children} This cannot be undone.</p>
      <TextField label="Reason" maxLength={maxReason} value={reason} onText={setReason} />
    </Confirm>
  )
}
