/** The fields of forms that take text, each with the service's error about it. */
import type { ComponentChildren } from "preact"
import { useRef } from "preact/hooks"
import type { FieldErrors } from "../forms.ts"
import { moreFields, type TaskForm, toolTemplate } from "../newTask.ts"
import { TextField, type TextFieldProps } from "./Basics.tsx"

export interface Editing<Name extends string> {
  readonly form: Readonly<Record<Name, string>>
  readonly errors: FieldErrors<Name>
  readonly change: (name: Name, value: string) => void
}

type TextProps = Omit<TextFieldProps, "error" | "name" | "onText" | "value">

export function Text<Name extends string>({ editing: { change, errors, form }, name, ...field }: TextProps & {
  readonly editing: Editing<Name>
  readonly name: Name
}) {
  return (
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
}

/** Where webhooks go, and what signs them. */
export const Callback = ({ editing, hint }: {
  readonly editing: Editing<"callback_url" | "callback_secret">
  readonly hint: string
}) => (
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
      hint={hint}
    />
  </div>
)

/** Stays open when its last field is emptied. */
export const MoreOptions = ({ children, isUsed }: {
  readonly isUsed: boolean
  readonly children: ComponentChildren
}) => {
  const isOpen = useRef(false)
  isOpen.current ||= isUsed
  return (
    <details class="more" open={isOpen.current}>
      <summary>More options</summary>
      {children}
    </details>
  )
}

export const More = ({ editing }: { readonly editing: Editing<keyof TaskForm> }) => {
  const { errors, form } = editing
  return (
    <MoreOptions isUsed={moreFields.some((name) => form[name] !== "" || errors[name] !== undefined)}>
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
      <Callback editing={editing} hint="Signs the webhooks." />
      <Text
        editing={editing}
        name="max_execution_time"
        label="Time limit in seconds"
        inputMode="numeric"
        hint="1 to 86,400; without it, a day."
      />
    </MoreOptions>
  )
}
