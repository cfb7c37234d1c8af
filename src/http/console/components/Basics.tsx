/** Small parts of all screens: status, moments, facts, small buttons, fields. */
import type { ComponentChildren } from "preact"
import { useId } from "preact/hooks"
import type { TaskStatus, WaitingOn } from "../../client/promise/Types.ts"
import { duration, moment, now, relative } from "../clock.ts"
import { copy } from "../messages.ts"
import { zone } from "../preferences.ts"
import { Icon, type IconName } from "./Icon.tsx"

const words: Readonly<Record<TaskStatus, string>> = {
  pending: "Pending",
  processing: "Processing",
  interrupted: "Interrupted",
  completed: "Completed",
  failed: "Failed",
  canceled: "Canceled"
}

export const wordOf = (status: TaskStatus): string => words[status]

type Waiting = WaitingOn | null | undefined

/** Whether the run waits until the core has room. */
const isQueued = (waiting: Waiting) => waiting?.party === "queue"

export const Status = ({ status, waiting }: { readonly status: TaskStatus; readonly waiting?: Waiting }) => (
  <span class={`status status-${isQueued(waiting) ? "pending" : status}`}>
    <Icon name={isQueued(waiting) ? "pending" : status} />
    {isQueued(waiting) ? "Queued" : words[status]}
  </span>
)

/** Places are counted up to this. */
const maxPosition = 1000

/** The place in the queue, as in "12 before it"; undefined of a task that is not in the queue. */
export const placeOf = (waiting: Waiting): string | undefined => {
  if (waiting?.party !== "queue") return undefined
  const position = waiting.position ?? 1
  if (position <= 1) return "next"
  return `${position >= maxPosition ? "at least " : ""}${position - 1} before it`
}

const deliveryIcons = { pending: "pending", delivered: "completed", failed: "failed" } as const

export const DeliveryState = ({ state }: { readonly state: keyof typeof deliveryIcons }) => (
  <span class={`state state-${state}`}>
    <Icon name={deliveryIcons[state]} />
    {state}
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

export const IconButton = ({ icon, label, onClick, title }: {
  readonly icon: IconName
  readonly label: string
  readonly title?: string
  readonly onClick: () => void
}) => (
  <button type="button" class="button quiet icon-only" aria-label={label} title={title} onClick={onClick}>
    <Icon name={icon} />
  </button>
)

export const CopyButton = ({ text, what }: { readonly text: () => string; readonly what: string }) => (
  <IconButton
    icon="copy"
    label={`Copy ${what}`}
    title={`Copy ${what}`}
    onClick={() => void copy(what, text())}
  />
)

export const Fact = ({ children, term }: { readonly term: string; readonly children: ComponentChildren }) => (
  <div>
    <dt>{term}</dt>
    <dd>{children}</dd>
  </div>
)

export interface SegmentsProps<A extends string> {
  readonly label: string
  readonly name: string
  readonly options: ReadonlyArray<readonly [value: A, text: string]>
  readonly value: A | undefined
  readonly onChoose: (value: A) => void
  /** A choice shows its label. */
  readonly style?: "segments" | "choice"
}

export function Segments<A extends string>(props: SegmentsProps<A>) {
  const { label, name, onChoose, options, style = "segments", value } = props
  return (
    <fieldset class={style}>
      <legend class={style === "segments" ? "visually-hidden" : undefined}>{label}</legend>
      {options.map(([option, text]) => (
        <label key={option}>
          <input type="radio" name={name} checked={option === value} onChange={() => onChoose(option)} />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  )
}

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

export interface TextFieldProps extends Omit<FieldProps, "children"> {
  readonly value: string
  readonly onText: (text: string) => void
  /** A button beside the input. */
  readonly button?: ComponentChildren
  readonly type?: "text" | "password"
  readonly name?: string
  readonly inputMode?: "numeric" | "url"
  readonly maxLength?: number
  /** For a text of several lines. */
  readonly rows?: number
  readonly isCode?: boolean
  readonly required?: boolean
  readonly spellcheck?: boolean
}

/** A labelled text, which the browser neither completes nor remembers. */
export const TextField = ({ button, inputMode, isCode, onText, rows, type, value, ...rest }: TextFieldProps) => {
  const { maxLength, name, required, spellcheck, ...field } = rest
  const props = {
    maxLength,
    name,
    required,
    spellcheck,
    value,
    autocomplete: "off",
    onInput: (event: { readonly currentTarget: { readonly value: string } }) => onText(event.currentTarget.value)
  }
  const inputOf = (control: FieldControl) =>
    rows !== undefined
      ? <textarea {...control} {...props} rows={rows} class={isCode === true ? "code" : ""} />
      : type === "password"
      ? <input {...control} {...props} type="password" />
      : <input {...control} {...props} inputMode={inputMode} />
  return (
    <Field {...field}>
      {(control) => button === undefined ? inputOf(control) : <div class="inline">{inputOf(control)}{button}</div>}
    </Field>
  )
}
