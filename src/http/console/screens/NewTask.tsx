/** Creates a task. What was typed stays in this tab until it is sent; the secret does not. */
import { type Signal, useSignal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { RateLimitError, ValidationError } from "../../client/promise/ApiErrors.ts"
import { randomId } from "../../client/promise/Transport.ts"
import type { CreateTask } from "../../client/promise/Types.ts"
import { active } from "../active.ts"
import { client } from "../api.ts"
import { Age, Field, type FieldControl, shortId, Status } from "../components/Basics.tsx"
import { Problem, Screen } from "../components/Screen.tsx"
import { addFiles, Uploads } from "../components/Uploads.tsx"
import { isFields, parse } from "../json.ts"
import { notify } from "../messages.ts"
import {
  bodyOf,
  emptyForm,
  type FieldErrors,
  fieldErrors,
  type FieldName,
  fieldOrder,
  type TaskForm,
  toolTemplate
} from "../newTask.ts"
import * as preferences from "../preferences.ts"
import { href, navigate, query } from "../Router.ts"
import { asVoice, itemsOf, type Upload } from "../uploads.ts"

const draftName = "draft.new"

const loadForm = (): TaskForm => {
  const kept = parse(preferences.read(preferences.tab, draftName) ?? "")?.value
  const texts = isFields(kept)
    ? Object.entries(kept).filter(([name, value]) => name in emptyForm && typeof value === "string")
    : []
  const assistant_id = preferences.read(preferences.local, "assistant") ?? ""
  const after = query.value.get("after")
  return { ...emptyForm, assistant_id, ...Object.fromEntries(texts), ...(after === null ? {} : { after }) }
}

const keepForm = (form: TaskForm) =>
  preferences.write(preferences.tab, draftName, JSON.stringify({ ...form, callback_secret: "" }))

interface Editing {
  readonly form: TaskForm
  readonly errors: FieldErrors
  readonly change: (form: TaskForm) => void
}

const Text = ({ editing: { change, errors, form }, name, ...rest }: {
  readonly editing: Editing
  readonly name: keyof TaskForm
  readonly label: string
  readonly hint?: ComponentChildren
  readonly isRequired?: boolean
  readonly inputMode?: "numeric" | "url"
  readonly type?: "text" | "password"
  readonly rows?: number
  readonly maxLength?: number
}) => {
  const { hint, inputMode, isRequired = false, label, maxLength, rows, type = "text" } = rest
  const props = (control: FieldControl) => ({
    ...control,
    name,
    maxLength,
    autocomplete: "off",
    value: form[name],
    onInput: ({ currentTarget }: { readonly currentTarget: { readonly value: string } }) =>
      change({ ...form, [name]: currentTarget.value })
  })
  return (
    <Field label={label} isRequired={isRequired} error={errors[name]} hint={hint}>
      {(control) =>
        rows === undefined
          ? type === "password"
            ? <input {...props(control)} type="password" />
            : <input {...props(control)} inputMode={inputMode} spellcheck={false} />
          : (
            <textarea
              {...props(control)}
              rows={rows}
              class={name === "client_tools" ? "code" : ""}
              spellcheck={name === "text"}
            />
          )}
    </Field>
  )
}

const More = ({ editing }: { readonly editing: Editing }) => {
  const { errors, form } = editing
  const names: ReadonlyArray<keyof TaskForm> = [
    "after",
    "client_tools",
    "llm_model_id",
    "image_generator_id",
    "callback_url",
    "callback_secret",
    "max_execution_time"
  ]
  const isOpen = names.some((name) => form[name] !== "" || errors[name] !== undefined)
  return (
    <details class="more" open={isOpen}>
      <summary>More options</summary>
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
          <button type="button" class="button" onClick={() => editing.change({ ...form, client_tools: toolTemplate })}>
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

/** What holds the slots, after the service refused another task. */
const NoSlot = ({ error }: { readonly error: RateLimitError }) => (
  <div class="problem" role="alert">
    <div>
      <p>{error.message}</p>
      <ul>
        {active.state.value.data?.data.map(({ created_at, status, uuid }) => (
          <li key={uuid}>
            <Status status={status} />{" "}
            <a href={href(`/tasks/${uuid}`)}>
              <code>{shortId(uuid)}</code>
            </a>{" "}
            <Age at={created_at} />
          </li>
        ))}
      </ul>
    </div>
  </div>
)

const Failure = ({ error }: { readonly error: unknown }) =>
  error === undefined ? null : error instanceof RateLimitError ? <NoSlot error={error} /> : <Problem error={error} />

interface Files {
  readonly files: Signal<ReadonlyArray<Upload>>
  readonly voice: Signal<ReadonlyArray<Upload>>
}

/** Sends the form. The key belongs to the content, so that a request whose answer was lost takes effect once. */
const useCreate = (form: TaskForm, { files, voice }: Files) => {
  const [errors, setErrors] = useState<FieldErrors>({})
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const uploaded = [...itemsOf(files.value), ...itemsOf(voice.value).map(asVoice)]
  const key = useMemo(randomId, [JSON.stringify([form, uploaded])])

  const fail = (body: CreateTask, failure: unknown) => {
    if (failure instanceof ValidationError) setErrors(fieldErrors(failure.errors, body))
    else setError(failure)
    if (failure instanceof RateLimitError) active.refresh()
  }
  const create = async () => {
    if (isBusy) return
    setError(undefined)
    setErrors({})
    if ([...files.value, ...voice.value].some(({ state }) => state.kind === "sending")) {
      return setErrors({ files: "Wait until all files are uploaded, or remove them" })
    }
    setBusy(true)
    let body: CreateTask | undefined
    try {
      const after = form.after.trim()
      const turn = after === "" ? undefined : (await client.tasks.get(after)).turn
      const made = bodyOf(form, uploaded, turn)
      if ("problems" in made) return setErrors(made.problems)
      body = made.body
      const { uuid } = await client.tasks.create(body, { idempotencyKey: key, maxRetries: 0 })
      preferences.write(preferences.tab, draftName, null)
      preferences.write(preferences.local, "assistant", form.assistant_id)
      notify("Task created")
      active.refresh()
      navigate(`/tasks/${uuid}`)
    } catch (failure) {
      if (body === undefined) {
        setErrors({ after: `That task cannot be read: ${failure instanceof Error ? failure.message : ""}` })
      } else fail(body, failure)
    } finally {
      setBusy(false)
    }
  }
  return { create, error, errors, isBusy }
}

/** Moves the focus to the first field with an error. */
const useFocusOfErrors = (errors: FieldErrors) => {
  const ref = useRef<HTMLFormElement>(null)
  useEffect(() => {
    const first: FieldName | undefined = fieldOrder.find((name) => errors[name] !== undefined)
    if (first !== undefined) ref.current?.querySelector<HTMLElement>("[aria-invalid]")?.focus()
  }, [errors])
  return ref
}

export const NewTask = () => {
  const [form, setForm] = useState(loadForm)
  const files = useSignal<ReadonlyArray<Upload>>([])
  const voice = useSignal<ReadonlyArray<Upload>>([])
  const { create, error, errors, isBusy } = useCreate(form, { files, voice })
  const ref = useFocusOfErrors(errors)
  useEffect(
    () => () => [...files.peek(), ...voice.peek()].forEach(({ abort, state }) => state.kind === "sending" && abort()),
    []
  )
  const editing: Editing = {
    form,
    errors,
    change: (next) => {
      keepForm(next)
      setForm(next)
    }
  }
  return (
    <Screen title="New task">
      <form
        ref={ref}
        class="new card"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void create()
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault()
          addFiles(files, event.dataTransfer?.files)
        }}
        onPaste={(event) => addFiles(files, event.clipboardData?.files)}
      >
        <Text editing={editing} name="assistant_id" label="Assistant id" isRequired inputMode="numeric" />
        <Text editing={editing} name="text" label="Text" rows={5} />
        <div class="columns">
          <Field label="Files" error={errors.files} hint="Drop or paste them anywhere on this form.">
            {(control) => <Uploads control={control} uploads={files} />}
          </Field>
          <Field label="Voice" error={errors.voice} hint="A recording, which is transcribed first.">
            {(control) => <Uploads control={control} uploads={voice} isSingle />}
          </Field>
        </div>
        <More editing={editing} />
        <Failure error={error} />
        <div class="form-end">
          <button type="submit" class="button primary" aria-disabled={isBusy}>Create the task</button>
        </div>
      </form>
    </Screen>
  )
}
