/** Small parts of all screens: status, moments, copy buttons, fields. */
import type { ComponentChildren } from "preact"
import { useId } from "preact/hooks"
import type { TaskStatus } from "../../client/promise/Types.ts"
import { duration, moment, now, relative } from "../clock.ts"
import { copy } from "../messages.ts"
import { zone } from "../preferences.ts"
import { Icon } from "./Icon.tsx"

const words: Readonly<Record<TaskStatus, string>> = {
  pending: "Pending",
  processing: "Processing",
  interrupted: "Interrupted",
  completed: "Completed",
  failed: "Failed",
  canceled: "Canceled"
}

export const wordOf = (status: TaskStatus): string => words[status]

export const Status = ({ status }: { readonly status: TaskStatus }) => (
  <span class={`status status-${status}`}>
    <Icon name={status} />
    {words[status]}
  </span>
)

/** A moment in the chosen zone; its title has it in UTC. */
export const Moment = ({ at }: { readonly at: string }) => (
  <time dateTime={at} title={`${at} (UTC)`}>
    {moment(Date.parse(at), zone.value)}
  </time>
)

/** How long ago a moment was, or how far away it is. */
export const Age = ({ at }: { readonly at: string }) => (
  <time dateTime={at} title={`${moment(Date.parse(at), zone.value)} · ${at} (UTC)`}>
    {relative(Date.parse(at), now.value)}
  </time>
)

/** The time from one moment to another, or until now. */
export const Took = ({ from, to }: { readonly from: string; readonly to: string | null }) => (
  <span>{duration((to === null ? Math.max(now.value, Date.parse(from)) : Date.parse(to)) - Date.parse(from))}</span>
)

export const shortId = (uuid: string): string => uuid.length > 13 ? `${uuid.slice(0, 8)}…${uuid.slice(-4)}` : uuid

export const CopyButton = ({ text, what }: { readonly text: () => string; readonly what: string }) => (
  <button
    type="button"
    class="button quiet icon-only"
    aria-label={`Copy ${what}`}
    title={`Copy ${what}`}
    onClick={() => void copy(what, text())}
  >
    <Icon name="copy" />
  </button>
)

/** The attributes that connect a control with its label, hint and error. */
export interface FieldControl {
  readonly id: string
  readonly "aria-describedby": string | undefined
  readonly "aria-invalid": true | undefined
}

export interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly error?: string | undefined
  readonly isRequired?: boolean
  readonly children: (control: FieldControl) => ComponentChildren
}

/** A labelled control with its hint and its error. */
export const Field = ({ children, error, hint, isRequired = false, label }: FieldProps) => {
  const id = useId()
  const described = [hint === undefined ? "" : `${id}-hint`, error === undefined ? "" : `${id}-error`].join(" ").trim()
  return (
    <div class="field">
      <label for={id}>
        {label}
        {isRequired ? null : <span class="optional">optional</span>}
      </label>
      {children({
        id,
        "aria-describedby": described === "" ? undefined : described,
        "aria-invalid": error === undefined ? undefined : true
      })}
      {error === undefined ? null : <p class="field-error" id={`${id}-error`}>{error}</p>}
      {hint === undefined ? null : <p class="hint" id={`${id}-hint`}>{hint}</p>}
    </div>
  )
}
