/** The fields of a new task that take text, each with the service's error about it. */
import { useRef } from "preact/hooks"
import { type FieldErrors, moreFields, type TaskForm, toolTemplate } from "../newTask.ts"
import { TextField, type TextFieldProps } from "./Basics.tsx"

export interface Editing {
  readonly form: TaskForm
  readonly errors: FieldErrors
  readonly change: (name: keyof TaskForm, value: string) => void
}

type TextProps = Omit<TextFieldProps, "error" | "name" | "onText" | "value">

export const Text = ({ editing: { change, errors, form }, name, ...field }: TextProps & {
  readonly editing: Editing
  readonly name: keyof TaskForm
}) => (
  <TextField
    {...field}
    name={name}
    error={errors[name]}
    isCode={name === "client_tools"}
    spellcheck={name === "text"}
    value={form[name]}
    onText={(value) => change(name, value)}
  />
)

export const More = ({ editing }: { readonly editing: Editing }) => {
  const { errors, form } = editing
  // Stays open when its last field is emptied.
  const isOpen = useRef(false)
  isOpen.current ||= moreFields.some((name) => form[name] !== "" || errors[name] !== undefined)
  return (
    <details class="more" open={isOpen.current}>
      <summary>More options</summary>
      <Text
        editing={editing}
        name="metadata"
        label="Labels"
        rows={2}
        hint="One a line, as in project: spring. The list of tasks shows and finds them."
      />
      <Text
        editing={editing}
        name="after"
        label="Continue an earlier task"
        hint="Its uuid. The conversation of that task goes on."
      />
      <Text
        editing={editing}
        name="client_tools"
        label="Client tools"
        rows={6}
        hint="A JSON array of functions that you answer for the model."
      />
      {form.client_tools !== "" ?
        null :
        (
          <button type="button" class="button" onClick={() => editing.change("client_tools", toolTemplate)}>
            Insert a template
          </button>
        )}
      <div class="columns">
        <Text editing={editing} name="llm_model_id" label="Model id" inputMode="numeric" />
        <Text editing={editing} name="image_generator_id" label="Image generator id" inputMode="numeric" />
      </div>
      <div class="columns">
        <Text
          editing={editing}
          name="callback_url"
          label="Callback URL"
          inputMode="url"
          maxLength={2048}
          hint="Webhooks go there."
        />
        <Text
          editing={editing}
          name="callback_secret"
          label="Callback secret"
          type="password"
          maxLength={255}
          hint="Signs the webhooks."
        />
      </div>
      <Text
        editing={editing}
        name="max_execution_time"
        label="Time limit in seconds"
        inputMode="numeric"
        hint="1 to 86,400; without it, a day."
      />
    </details>
  )
}
