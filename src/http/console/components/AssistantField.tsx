/** The assistant of a task: by name where the backend lists its assistants, otherwise a number, with those asked last. */
import { useEffect, useMemo, useState } from "preact/hooks"
import { listed, load, recent } from "../assistants.ts"
import { Field, TextField } from "./Basics.tsx"

export interface AssistantFieldProps {
  readonly value: string
  readonly error: string | undefined
  readonly onChange: (id: string) => void
}

const other = "other"

const Named = ({ all, error, onChange, onOther, value }: AssistantFieldProps & {
  readonly all: NonNullable<typeof listed.value>
  readonly onOther: () => void
}) => {
  const chosen = all.find(({ id }) => id === value)
  return (
    <Field label="Assistant" isRequired error={error} hint={chosen?.description || undefined}>
      {(control) => (
        <select
          {...control}
          name="assistant_id"
          value={value}
          onChange={({ currentTarget: { value: id } }) => id === other ? onOther() : onChange(id)}
        >
          <option value="">Choose…</option>
          {value === "" || chosen !== undefined ? null : <option value={value}>{value}</option>}
          {all.map(({ id, name }) => <option key={id} value={id}>{name === "" ? id : `${name} (${id})`}</option>)}
          <option value={other}>Another, by its number…</option>
        </select>
      )}
    </Field>
  )
}

export const AssistantField = (props: AssistantFieldProps) => {
  const { error, onChange, value } = props
  const all = listed.value
  // The control stays the same while an id is typed; before the list is known it has the focus of an error.
  const startsNamed = useMemo(() => value === "" || all?.some(({ id }) => id === value), [all === undefined])
  const [isOther, setOther] = useState<boolean>()
  useEffect(() => void load(), [])
  if (all === undefined) return <Named {...props} all={[]} onOther={() => setOther(true)} />
  const isNumber = all.length === 0 || (isOther ?? startsNamed !== true)
  if (!isNumber) return <Named {...props} all={all} onOther={() => setOther(true)} />
  const others = recent().filter((id) => id !== value)
  return (
    <div class="field">
      <TextField
        label="Assistant id"
        name="assistant_id"
        isRequired
        inputMode="numeric"
        hint="The number of the assistant that does the task."
        error={error}
        value={value}
        onText={onChange}
      />
      {others.length === 0 && all.length === 0 ? null : (
        <div class="presets" role="group" aria-label="Other assistants">
          {others.map((id) => (
            <button key={id} type="button" class="button quiet" onClick={() => onChange(id)}>{id}</button>
          ))}
          {all.length === 0 ? null : (
            <button
              type="button"
              class="button quiet"
              onClick={() => {
                setOther(false)
                onChange("")
              }}
            >
              Choose by name
            </button>
          )}
        </div>
      )}
    </div>
  )
}
