/** The fields of a tool's output schema. */
import { useId } from "preact/hooks"
import { type FormField, keyOf, type Problems, type Typed } from "../schemaForm.ts"
import { Field, type FieldControl } from "./Basics.tsx"

interface ControlProps {
  readonly field: FormField
  readonly value: Typed[string] | undefined
  readonly onChange: (value: Typed[string]) => void
}

const Several = ({ field, onChange, value }: ControlProps) => {
  const chosen = new Set(Array.isArray(value) ? value : [])
  if (field.kind !== "many") return null
  return (
    <fieldset class="several">
      <legend>{field.label}{field.isRequired ? null : <span class="optional">optional</span>}</legend>
      {field.options.map((option) => (
        <label key={option} class="check">
          <input
            type="checkbox"
            checked={chosen.has(option)}
            onChange={() => onChange(field.options.filter((each) => chosen.has(each) !== (each === option)))}
          />
          <bdi>{option}</bdi>
        </label>
      ))}
      {field.hint === undefined ? null : <p class="hint">{field.hint.slice(0, 500)}</p>}
    </fieldset>
  )
}

const Toggle = ({ field, onChange, value }: ControlProps) => {
  const id = useId()
  return (
    <div class="field">
      <label class="check">
        <input
          type="checkbox"
          aria-describedby={id}
          checked={value === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
        <bdi>{field.label}</bdi>
      </label>
      {field.hint === undefined ? null : <p class="hint" id={id}>{field.hint.slice(0, 500)}</p>}
    </div>
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
      inputMode={field.kind === "integer" ? "numeric" : field.kind === "number" ? "decimal" : "text"}
      value={text}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  )
}

export const SchemaForm = ({ fields, onChange, problems, typed }: {
  readonly fields: ReadonlyArray<FormField>
  readonly typed: Typed
  readonly problems: Problems
  readonly onChange: (typed: Typed) => void
}) => (
  <>
    {fields.map((field) => {
      const key = keyOf(field)
      const props = {
        field,
        value: typed[key],
        onChange: (value: Typed[string]) => onChange({ ...typed, [key]: value })
      }
      if (field.kind === "many") return <Several key={key} {...props} />
      if (field.kind === "boolean") return <Toggle key={key} {...props} />
      return (
        <Field
          key={key}
          label={field.label}
          hint={field.hint?.slice(0, 500)}
          error={problems[key]}
          isRequired={field.isRequired}
        >
          {(control) => <Control control={control} {...props} />}
        </Field>
      )
    })}
  </>
)
