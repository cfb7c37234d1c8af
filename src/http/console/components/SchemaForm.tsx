/** The fields of a tool's output schema. None has a value before somebody gives one. */
import type { ComponentChildren } from "preact"
import { useId } from "preact/hooks"
import { type FieldGroup, type FormField, keyOf, type Problems, type Typed } from "../schemaForm.ts"
import { Field, type FieldControl } from "./Basics.tsx"

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
        <label key={option} class="check">
          <input type="checkbox" checked={chosen.has(option)} onChange={() => choose(option)} />
          <bdi>{option}</bdi>
        </label>
      ))}
      {field.isRequired
        ? (
          <label class="check">
            <input type="checkbox" checked={isNone} onChange={() => onChange(isNone ? undefined : [])} />
            <span>{none}</span>
          </label>
        )
        : null}
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

const Control = ({ control, field, onChange, value }: ControlProps & { readonly control: FieldControl }) => {
  const text = typeof value === "string" ? value : ""
  if (field.kind === "one") {
    return (
      <select {...control} value={text} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">Choose…</option>
        {field.options.map((option) => <option key={option} value={option}>{option}</option>)}
      </select>
    )
  }
  return (
    <input
      {...control}
      autocomplete="off"
      dir="auto"
      inputMode={field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : "text"}
      value={text}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  )
}

const OneField = (props: ControlProps) => {
  const { field, problem } = props
  if (field.kind === "many") return <Several {...props} />
  if (field.kind === "boolean") return <YesOrNo {...props} />
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

export const SchemaForm = ({ fields, onChange, problems, typed }: {
  readonly fields: ReadonlyArray<FormField>
  readonly typed: Typed
  readonly problems: Problems
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
        problem={problems[key]}
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
