/** The fields of a tool's schema. No decision has a value before somebody makes it. */
import type { ComponentChildren } from "preact"
import { useId } from "preact/hooks"
import { type FieldGroup, type FormField, maxRows } from "../schemaForm.ts"
import { keyOf, type Problems, rowsIn, type Typed } from "../typedForm.ts"
import { Field, type FieldControl, IconButton } from "./Basics.tsx"

interface ControlProps {
  readonly field: FormField
  readonly value: Typed[string] | undefined
  readonly problem: string | undefined
  /** Undefined is no answer. */
  readonly onChange: (value: Typed[string] | undefined) => void
}

/** Several controls of one question, with its hint and its error. */
const Question = ({ children, field: { hint, isRequired, kind, label }, problem }: ControlProps & {
  readonly children: ComponentChildren
}) => {
  const id = useId()
  return (
    <fieldset
      class="several"
      role={kind === "boolean" ? "radiogroup" : undefined}
      aria-invalid={problem === undefined ? undefined : true}
      aria-describedby={id}
    >
      <legend>
        <bdi>{label}</bdi>
        {isRequired ? null : <span class="optional">optional</span>}
      </legend>
      {children}
      <div id={id}>
        {problem === undefined ? null : <p class="field-error">{problem}</p>}
        {hint === undefined ? null : <p class="hint">{hint}</p>}
      </div>
    </fieldset>
  )
}

const none = "None of these"

const Check = ({ isChecked, label, onChange }: {
  readonly label: string
  readonly isChecked: boolean
  readonly onChange: () => void
}) => (
  <label class="check">
    <input type="checkbox" checked={isChecked} onChange={onChange} />
    <bdi>{label}</bdi>
  </label>
)

/** A required choice of several has an answer that says none: no box ticked may be a question that nobody read. */
const Several = (props: ControlProps) => {
  const { field, onChange, value } = props
  if (field.kind !== "many") return null
  const chosen = new Set(Array.isArray(value) ? value : [])
  const choose = (option: string) => {
    const next = field.options.filter((each) => chosen.has(each) !== (each === option))
    onChange(next.length === 0 ? undefined : next)
  }
  const isNone = Array.isArray(value) && value.length === 0
  return (
    <Question {...props}>
      {field.options.map((option) => (
        <Check
          key={option}
          label={option}
          isChecked={chosen.has(option)}
          onChange={() => choose(option)}
        />
      ))}
      {field.isRequired
        ? <Check label={none} isChecked={isNone} onChange={() => onChange(isNone ? undefined : [])} />
        : null}
    </Question>
  )
}

/** A list: rows are added and removed. None is an answer of its own, as above. */
const RowsField = (props: ControlProps & { readonly problems: Problems }) => {
  const { field, onChange, problems, value } = props
  if (field.kind !== "rows") return null
  const rows = rowsIn(value)
  const change = (next: ReadonlyArray<Typed>) => onChange({ rows: next })
  const key = keyOf(field)
  return (
    <Question {...props}>
      {rows?.map((row, index) => (
        <fieldset key={index} class={field.isPlain ? "row row-plain" : "row"}>
          <legend class={field.isPlain ? "visually-hidden" : ""}>{index + 1}</legend>
          <SchemaForm
            fields={field.fields}
            typed={row}
            problems={problems}
            at={field.isPlain ? undefined : `${key}.${index}.`}
            problemOfValue={problems[`${key}.${index}`]}
            onChange={(typed) => change(rows.with(index, typed))}
          />
          <IconButton
            icon="close"
            label={`Remove ${field.label} ${index + 1}`}
            onClick={() => change(rows.toSpliced(index, 1))}
          />
        </fieldset>
      ))}
      <div class="inline">
        <button
          type="button"
          class="button"
          aria-disabled={(rows?.length ?? 0) >= maxRows}
          onClick={() => (rows?.length ?? 0) >= maxRows || change([...rows ?? [], {}])}
        >
          Add<span class="visually-hidden">{` to ${field.label}`}</span>
        </button>
        {field.isRequired && (rows === undefined || rows.length === 0)
          ? <Check label="None" isChecked={rows !== undefined} onChange={() => onChange(rows && { rows: [] })} />
          : null}
      </div>
    </Question>
  )
}

const YesOrNo = (props: ControlProps) => {
  const name = useId()
  const { field: { isRequired }, onChange, value } = props
  return (
    <Question {...props}>
      <div class="inline">
        {([true, false] as const).map((answer) => (
          <label key={String(answer)} class="check">
            <input type="radio" name={name} checked={value === answer} onChange={() => onChange(answer)} />
            <span>{answer ? "Yes" : "No"}</span>
          </label>
        ))}
        {isRequired || value === undefined
          ? null
          : <button type="button" class="button quiet" onClick={() => onChange(undefined)}>Clear</button>}
      </div>
    </Question>
  )
}

const momentTypes = { date: "date", time: "time", "date-time": "datetime-local" } as const

/** What a control cannot read has no value, and stays in it. */
const unreadable = "?"

const Control = ({ control, field, onChange, value }: ControlProps & { readonly control: FieldControl }) => {
  const text = typeof value === "string" ? value : ""
  const onInput = (
    { currentTarget: { validity, value } }: {
      readonly currentTarget: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement
    }
  ) => onChange(validity.badInput ? unreadable : value)
  if (field.kind === "one") {
    return (
      <select {...control} value={text} onChange={onInput}>
        <option value="">Choose…</option>
        {field.options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    )
  }
  if (field.kind === "text" && field.isLong) {
    return <textarea {...control} dir="auto" rows={5} value={text} onInput={onInput} />
  }
  const format = field.kind === "text" ? field.format : undefined
  const shared = { ...control, autocomplete: "off", value: text === unreadable ? undefined : text, onInput }
  if (field.kind === "number" || field.kind === "integer") {
    return <input {...shared} type="number" step={field.kind === "integer" ? "1" : "any"} />
  }
  if (format === "email") return <input {...shared} type="email" />
  if (format === "uri") return <input {...shared} type="url" />
  return format === undefined
    ? <input {...shared} dir="auto" />
    : <input {...shared} type={momentTypes[format]} step={format === "date" ? undefined : "1"} />
}

const Constant = ({ field }: { readonly field: FormField }) =>
  field.kind !== "constant" ? null : (
    <div class="field">
      <span class="field-name">
        <bdi>{field.label}</bdi>
      </span>
      <code>{String(field.value)}</code>
    </div>
  )

const OneField = (props: ControlProps & { readonly problems: Problems }) => {
  const { field, problem } = props
  if (field.kind === "many") return <Several {...props} />
  if (field.kind === "boolean") return <YesOrNo {...props} />
  if (field.kind === "rows") return <RowsField {...props} />
  if (field.kind === "constant") return <Constant field={field} />
  return (
    <Field label={field.label} hint={field.hint} error={problem} isRequired={field.isRequired}>
      {(control) => <Control control={control} {...props} />}
    </Field>
  )
}

const Group = ({ children, group }: { readonly group: FieldGroup; readonly children: ComponentChildren }) => (
  <fieldset class="several group">
    <legend>
      <bdi>{group.within === undefined ? group.label : `${group.within.label} › ${group.label}`}</bdi>
      {group.isRequired ? null : <span class="optional">optional</span>}
    </legend>
    {group.hint === undefined ? null : <p class="hint">{group.hint}</p>}
    {children}
  </fieldset>
)

export const SchemaForm = ({ at = "", fields, onChange, problemOfValue, problems, typed }: {
  readonly fields: ReadonlyArray<FormField>
  readonly typed: Typed
  readonly problems: Problems
  /** The path of the object within the whole answer, with its dot. */
  readonly at?: string | undefined
  /** That of a row which is a plain value. */
  readonly problemOfValue?: string | undefined
  readonly onChange: (typed: Typed) => void
}) => {
  const change = (key: string, value: Typed[string] | undefined) => {
    const { [key]: _, ...others } = typed
    onChange(value === undefined ? others : { ...others, [key]: value })
  }
  const show = (field: FormField) => {
    const key = keyOf(field)
    return (
      <OneField
        key={key}
        field={field}
        value={typed[key]}
        problem={problemOfValue ?? problems[at + key]}
        problems={problems}
        onChange={(value) => change(key, value)}
      />
    )
  }
  const groups = Map.groupBy(fields, ({ group, path }) => (group?.path ?? path).join("."))
  return (
    <>
      {[...groups].map(([name, [first, ...others]]) =>
        first === undefined
          ? null
          : first.group === undefined
          ? show(first)
          : <Group key={name} group={first.group}>{[first, ...others].map(show)}</Group>
      )}
    </>
  )
}
