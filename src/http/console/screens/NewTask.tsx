/** Creates a task. What was typed stays in this tab until it is sent; the secret does not. */
import { type Signal, useSignal } from "@preact/signals"
import { useEffect, useMemo, useState } from "preact/hooks"
import { RateLimitError, ValidationError } from "../../client/promise/ApiErrors.ts"
import { randomId } from "../../client/promise/Transport.ts"
import type { CreateTask, InputItem } from "../../client/promise/Types.ts"
import { submitting } from "../actions.ts"
import { active } from "../active.ts"
import { client } from "../api.ts"
import * as assistants from "../assistants.ts"
import { AssistantField } from "../components/AssistantField.tsx"
import { Age, Field, IconButton, shortId, Status } from "../components/Basics.tsx"
import { Icon } from "../components/Icon.tsx"
import { Empty, Loaded, Problem, Screen } from "../components/Screen.tsx"
import { type Editing, More, Text } from "../components/TaskFields.tsx"
import { addFiles, asVoice, itemsOf, type Upload, Uploads } from "../components/Uploads.tsx"
import { useErrors } from "../forms.ts"
import { field, isFields, parse, textField } from "../json.ts"
import { notify } from "../messages.ts"
import {
  bodyOf,
  type Carried,
  emptyForm,
  fieldErrors,
  type FieldName,
  formOf,
  nothingCarried,
  type TaskForm,
  toolTemplate
} from "../newTask.ts"
import { usePoll } from "../poll.ts"
import * as preferences from "../preferences.ts"
import { readTask } from "../readTask.ts"
import { linked } from "../related.ts"
import { href, navigate, query } from "../Router.ts"

const draftName = "draft.new"

const loadForm = (): TaskForm => {
  const kept = parse(preferences.read(preferences.tab, draftName) ?? "")?.value
  const texts = isFields(kept)
    ? Object.entries(kept).filter(([name, value]) => name in emptyForm && typeof value === "string")
    : []
  const [assistant_id = ""] = assistants.recent()
  const after = query.value.get("after")
  const isExample = query.value.get("example") === "tool"
  return {
    ...emptyForm,
    assistant_id,
    ...Object.fromEntries(texts),
    ...(after === null ? {} : { after }),
    ...(isExample ? { text: "Call approve_refund for the order 2026-11-B-0417", client_tools: toolTemplate } : {})
  }
}

const keepForm = (form: TaskForm) =>
  preferences.write(preferences.tab, draftName, JSON.stringify({ ...form, callback_secret: "" }))

const filesName = "draft.files"

/** Files that were uploaded before the page was loaded again. */
const loadItems = (): ReadonlyArray<InputItem> => {
  const kept = parse(preferences.read(preferences.tab, filesName) ?? "")?.value
  return Array.isArray(kept) ? kept.filter((item) => textField(field(item, "file"), "id") !== undefined) : []
}

const keepItems = (items: ReadonlyArray<InputItem>) =>
  preferences.write(preferences.tab, filesName, items.length === 0 ? null : JSON.stringify(items))

/** The tasks that hold the slots, after the service refused another one. */
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
  error instanceof RateLimitError ? <NoSlot error={error} /> : <Problem error={error} />

interface Parts {
  readonly files: Signal<ReadonlyArray<Upload>>
  readonly voice: Signal<ReadonlyArray<Upload>>
  /** Files of an earlier request. */
  readonly items: Signal<ReadonlyArray<InputItem>>
  readonly carried: Carried
  /** The task that is run again. */
  readonly repeats: string | undefined
}

/** Sends the form. The key belongs to the content, so that a request whose answer was lost takes effect once. */
const useCreate = (form: TaskForm, { carried, files, items, repeats, voice }: Parts) => {
  const { errors, ref, setErrors } = useErrors<TaskForm, FieldName>(form)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const uploaded = [...items.value, ...itemsOf(files.value), ...itemsOf(voice.value).map(asVoice)]
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
      const made = bodyOf(form, uploaded, turn, carried)
      if ("problems" in made) return setErrors(made.problems)
      const { metadata } = made.body
      body = repeats !== undefined
        ? { ...made.body, metadata: linked(metadata, "repeats", repeats) }
        : after === ""
        ? made.body
        : { ...made.body, metadata: linked(metadata, "continues", after) }
      const { uuid } = await client.tasks.create(body, { idempotencyKey: key, maxRetries: 0 })
      preferences.write(preferences.tab, draftName, null)
      keepItems([])
      assistants.remember(form.assistant_id.trim())
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
  return { create, error, errors, isBusy, ref }
}

/** Files of an earlier request, which are sent again unless the user removes them. */
const EarlierFiles = ({ items }: Pick<Parts, "items">) => (
  <ul class="uploads" aria-label="Files that were uploaded before">
    {items.value.map((item, index) => {
      const name = (item.type === "file" ? item.file.name : item.type === "voice" ? item.voice.name : "").slice(0, 200)
      return (
        <li key={index} class="upload">
          <Icon name="file" />
          <span class="upload-name">
            <bdi>{name}</bdi>
          </span>
          <span class="detail">uploaded before</span>
          <IconButton
            icon="close"
            label={`Remove ${name}`}
            onClick={() => items.value = items.value.filter((each) => each !== item)}
          />
        </li>
      )
    })}
  </ul>
)

/** Takes files that are dropped anywhere on the page; returns whether some are above it. */
const useDrop = (files: Parts["files"]) => {
  const [isAbove, setAbove] = useState(false)
  useEffect(() => {
    const listening = new AbortController()
    const listen = (type: "dragover" | "dragleave" | "drop", isOver: boolean) =>
      document.addEventListener(type, (event) => {
        event.preventDefault()
        setAbove(isOver)
        if (type === "drop") addFiles(files, event.dataTransfer?.files)
      }, { signal: listening.signal })
    listen("dragover", true)
    listen("dragleave", false)
    listen("drop", false)
    return () => listening.abort()
  }, [])
  return isAbove
}

const Form = ({ carried, initial, isDraft, items: given, repeats }: {
  readonly repeats?: string
  readonly initial: TaskForm
  readonly items: ReadonlyArray<InputItem>
  readonly carried: Carried
  /** The draft is stored in this tab. */
  readonly isDraft: boolean
}) => {
  const [form, setForm] = useState(initial)
  const items = useSignal(given)
  const files = useSignal<ReadonlyArray<Upload>>([])
  const voice = useSignal<ReadonlyArray<Upload>>([])
  const { create, error, errors, isBusy, ref } = useCreate(form, { carried, files, items, repeats, voice })
  const isDropping = useDrop(files)
  useEffect(() => {
    if (isDraft) keepItems([...items.value, ...itemsOf(files.value)])
  }, [items.value, files.value])
  useEffect(
    () => () => [...files.peek(), ...voice.peek()].forEach(({ abort, state }) => state.kind === "sending" && abort()),
    []
  )
  const editing: Editing<keyof TaskForm> = {
    form,
    errors,
    change: (name, value) => {
      const next = { ...form, [name]: value }
      if (isDraft) keepForm(next)
      setForm(next)
    }
  }
  return (
    <form
      ref={ref}
      class={`new card ${isDropping ? "dropping" : ""}`}
      noValidate
      onSubmit={submitting(() => void create())}
      onKeyDown={(event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ref.current?.requestSubmit()
      }}
      onPaste={(event) => addFiles(files, event.clipboardData?.files)}
    >
      <AssistantField
        value={form.assistant_id}
        error={errors.assistant_id}
        onChange={(id) => editing.change("assistant_id", id)}
      />
      <Text editing={editing} name="text" label="Text" isRequired rows={5} />
      {items.value.length === 0 ? null : <EarlierFiles items={items} />}
      <div class="columns">
        <Field label="Files" error={errors.files} hint="Drop them anywhere on the page, or paste them here.">
          {(control) => <Uploads control={control} uploads={files} />}
        </Field>
        <Field label="Voice" error={errors.voice} hint="A recording, which is transcribed first.">
          {(control) => <Uploads control={control} uploads={voice} isSingle />}
        </Field>
      </div>
      <More editing={editing} />
      <Failure error={error} />
      <div class="form-end">
        <button type="submit" class="button primary" aria-disabled={isBusy} title="Ctrl+Enter">Create the task</button>
      </div>
    </form>
  )
}

/** The form filled in with the request of an earlier task. */
const Again = ({ uuid }: { readonly uuid: string }) => {
  const { refresh, state } = usePoll((signal) => readTask(uuid, null, signal), () => Infinity, [uuid])
  return (
    <Loaded polled={state.value} refresh={refresh}>
      {(version) => {
        const request = version?.task.request
        if (request == null) return <Empty title="The request of this task is not kept." />
        const { carried, form, items } = formOf(request)
        return <Form initial={form} items={items} carried={carried} isDraft={false} repeats={uuid} />
      }}
    </Loaded>
  )
}

export const NewTask = () => {
  const again = query.value.get("again")
  return (
    <Screen title={again === null ? "New task" : "Run again"}>
      {again === null
        ? <Form initial={loadForm()} items={loadItems()} carried={nothingCarried} isDraft />
        : <Again uuid={again} />}
    </Screen>
  )
}
