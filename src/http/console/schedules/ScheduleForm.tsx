/** Makes a schedule or changes one, with a preview of its next moments. */
import { useEffect, useMemo, useState } from "preact/hooks"
import { ValidationError } from "../../client/promise/ApiErrors.ts"
import { randomId } from "../../client/promise/Transport.ts"
import type { Schedule } from "../../client/promise/Types.ts"
import { submitting, useAction } from "../actions.ts"
import { client } from "../api.ts"
import * as assistants from "../assistants.ts"
import { AssistantField } from "../components/AssistantField.tsx"
import { Field, Segments, shortId } from "../components/Basics.tsx"
import { Loaded, messageOf, Problem, Screen } from "../components/Screen.tsx"
import { Callback, type Editing as EditingOf, MoreOptions, Text } from "../components/TaskFields.tsx"
import { useErrors } from "../forms.ts"
import { notify } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { href, navigate } from "../Router.ts"
import { Moments } from "./Outcomes.tsx"
import {
  bodyOf,
  changesOf,
  cronWords,
  emptyForm,
  type FieldErrors,
  fieldErrors,
  type FieldName,
  formOf,
  momentWords,
  moreFields,
  ownZone,
  presets,
  problemsOf,
  type ScheduleForm
} from "./schedules.ts"
import { refusal, Refused } from "./ScheduleScreen.tsx"

type Editing = EditingOf<FieldName>

/** A moment in the browser's zone. */
const MomentField = ({ editing: { change, errors, form }, hint, isRequired = false, label, name }: {
  readonly editing: Editing
  readonly name: FieldName
  readonly label: string
  readonly hint: string
  readonly isRequired?: boolean
}) => (
  <Field label={label} hint={hint} error={errors[name]} isRequired={isRequired}>
    {(control) => (
      <input
        {...control}
        type="datetime-local"
        name={name}
        value={form[name]}
        onInput={(event) => change(name, event.currentTarget.value)}
      />
    )}
  </Field>
)

/** The browser's zones: the service may know more. */
const zones = () => {
  try {
    return ["UTC", ...Intl.supportedValuesOf("timeZone")]
  } catch {
    return ["UTC"]
  }
}

/** Milliseconds after the last key. */
const previewDelay = 400
const previewed = 5

interface Preview {
  readonly moments: ReadonlyArray<string>
  readonly errors: FieldErrors
}

/** What the service answers about the rhythm that is typed. */
const usePreview = ({ cron, timezone, type }: ScheduleForm): Preview => {
  const [found, setFound] = useState<Preview>({ moments: [], errors: {} })
  useEffect(() => {
    if (type !== "cron" || cron.trim() === "") return setFound({ moments: [], errors: {} })
    const aborting = new AbortController()
    const read = async () => {
      const body = { cron: cron.trim(), timezone: timezone.trim() || undefined, count: previewed }
      try {
        const moments = await client.schedules.preview(body, { signal: aborting.signal, maxRetries: 1 })
        setFound({ moments, errors: {} })
      } catch (error) {
        if (aborting.signal.aborted) return
        const errors = error instanceof ValidationError ? fieldErrors(error.errors) : { cron: messageOf(error) }
        setFound({ moments: [], errors })
      }
    }
    const timer = setTimeout(() => void read(), previewDelay)
    return () => {
      clearTimeout(timer)
      aborting.abort()
    }
  }, [cron, timezone, type])
  return found
}

const Rhythm = ({ editing, preview }: { readonly editing: Editing; readonly preview: Preview }) => {
  const { change, errors, form } = editing
  const known = useMemo(zones, [])
  return (
    <>
      <div class="presets" role="group" aria-label="Usual rhythms">
        {presets.map(([label, cron]) => (
          <button
            key={cron}
            type="button"
            class="button quiet"
            onClick={() => change("cron", cron)}
          >
            {label}
          </button>
        ))}
      </div>
      <div class="columns">
        <Text
          editing={editing}
          name="cron"
          label="Rhythm"
          isRequired
          hint="Minute, hour, day, month, weekday; as in 0 9 * * MON-FRI"
        />
        <Field label="Time zone" error={errors.timezone} isRequired hint="Its clock decides, also when it changes.">
          {(control) => (
            <>
              <input
                {...control}
                name="timezone"
                list="zones"
                autocomplete="off"
                spellcheck={false}
                value={form.timezone}
                onInput={(event) => change("timezone", event.currentTarget.value)}
              />
              <datalist id="zones">{known.map((zone) => <option key={zone} value={zone} />)}</datalist>
            </>
          )}
        </Field>
      </div>
      <section class="preview" aria-label="Next moments" aria-live="polite">
        {preview.moments.length === 0 ? <p class="hint">The next moments appear here.</p> : (
          <>
            <p class="preview-words">{cronWords(form.cron) ?? form.cron}</p>
            <Moments moments={preview.moments} timezone={form.timezone || "UTC"} />
          </>
        )}
      </section>
    </>
  )
}

const overlaps = [
  ["skip", "Leave the moment out"],
  ["queue", "Wait for its end"],
  ["allow", "Start beside it"]
] as const

const More = ({ editing, isNew }: { readonly editing: Editing; readonly isNew: boolean }) => {
  const { change, errors, form } = editing
  return (
    <MoreOptions
      isUsed={moreFields.some((name) => errors[name] !== undefined || (form[name] !== "" && name !== "overlap"))}
    >
      <Field label="While the task before is active" error={errors.overlap} isRequired>
        {(control) => (
          <select
            {...control}
            name="overlap"
            value={form.overlap}
            onChange={(event) => change("overlap", event.currentTarget.value)}
          >
            {overlaps.map(([value, label]) => <option key={value} value={value}>{label}</option>)}
          </select>
        )}
      </Field>
      <div class="columns">
        <MomentField editing={editing} name="starts_at" label="Starts" hint="Nothing fires before." />
        <MomentField editing={editing} name="ends_at" label="Ends" hint="Nothing fires from then on." />
      </div>
      <div class="columns">
        <Text
          editing={editing}
          name="spread"
          label="Spread in seconds"
          inputMode="numeric"
          hint="Moments are later by up to so much, the same each time."
        />
        <Text
          editing={editing}
          name="catchup_window"
          label="Make up for, in seconds"
          inputMode="numeric"
          hint="How late a missed moment may be: 60 to 86,400; without it, an hour."
        />
      </div>
      <div class="columns">
        <Text
          editing={editing}
          name="pause_after_failures"
          label="Pause after failures"
          inputMode="numeric"
          hint="As many tasks in a row that failed."
        />
        <Text editing={editing} name="key" label="Key" maxLength={100} hint="A name for scripts, unique for you." />
      </div>
      <Callback
        editing={editing}
        hint={isNew ? "Signs the webhooks." : "Type it again when you change the task."}
      />
    </MoreOptions>
  )
}

const useSave = (form: ScheduleForm, before: Schedule | undefined) => {
  const { errors, ref, setErrors } = useErrors<ScheduleForm, FieldName>(form)
  // The key belongs to the content, so that a request whose answer was lost takes effect once.
  const key = useMemo(randomId, [JSON.stringify(form)])
  const { error, isBusy, run } = useAction(async () => {
    const problems = problemsOf(form, before)
    setErrors(problems)
    if (Object.keys(problems).length > 0) return
    try {
      const { id } = before === undefined
        ? await client.schedules.create(bodyOf(form), { idempotencyKey: key, maxRetries: 0 })
        : await client.schedules.update(before.id, changesOf(form, before), { maxRetries: 0 })
      assistants.remember(form.assistant_id.trim())
      notify(before === undefined ? "Schedule created" : "Schedule changed")
      navigate(`/schedules/${id}`)
    } catch (failure) {
      if (!(failure instanceof ValidationError)) throw failure
      setErrors(fieldErrors(failure.errors))
    }
  })
  return { error, errors, isBusy, ref, save: run }
}

const Form = ({ before, initial }: { readonly initial: ScheduleForm; readonly before?: Schedule }) => {
  const [form, setForm] = useState(initial)
  const { error, errors, isBusy, ref, save } = useSave(form, before)
  const preview = usePreview(form)
  const editing: Editing = {
    form,
    errors: { ...preview.errors, ...errors },
    change: (name, value) => setForm((present) => ({ ...present, [name]: value }))
  }
  return (
    <form ref={ref} class="new card" noValidate onSubmit={submitting(() => save())}>
      <Text editing={editing} name="name" label="Name" maxLength={100} />
      <Segments
        label="Kind"
        name="type"
        options={[["cron", "Again and again"], ["once", "Once later"]]}
        value={form.type}
        onChoose={(type) => editing.change("type", type)}
      />
      {form.type === "cron" ? <Rhythm editing={editing} preview={preview} /> : (
        <>
          <MomentField
            editing={editing}
            name="run_at"
            label="Moment"
            isRequired
            hint={`In your zone, ${ownZone()}; at most a year ahead.`}
          />
          {form.run_at === "" ?
            null :
            <p class="preview-words">{momentWords(new Date(form.run_at).toISOString(), ownZone())}</p>}
        </>
      )}
      <AssistantField
        value={form.assistant_id}
        error={editing.errors.assistant_id}
        onChange={(id) => editing.change("assistant_id", id)}
      />
      <Text editing={editing} name="text" label="Text" isRequired rows={5} hint="What each task asks for." />
      <More editing={editing} isNew={before === undefined} />
      <Problem error={error} />
      <div class="form-end">
        {before === undefined ? null : <a class="button" href={href(`/schedules/${before.id}`)}>Back</a>}
        <button type="submit" class="button primary" aria-disabled={isBusy}>
          {before === undefined ? "Create the schedule" : "Save"}
        </button>
      </div>
    </form>
  )
}

export const NewSchedule = () => (
  <Screen title="New schedule">
    <Form
      initial={{
        ...emptyForm,
        timezone: ownZone(),
        assistant_id: assistants.recent()[0] ?? ""
      }}
    />
  </Screen>
)

export const EditSchedule = ({ id }: { readonly id: string }) => {
  const { refresh, state } = usePoll((signal) => client.schedules.get(id, { signal }), () => Infinity, [id])
  const refused = state.value.data === undefined ? refusal(state.value.error) : undefined
  return (
    <Screen title={`Edit ${state.value.data?.name ?? `schedule ${shortId(id)}`}`}>
      {refused === undefined
        ? (
          <Loaded polled={state.value} refresh={refresh}>
            {(schedule) => <Form initial={formOf(schedule)} before={schedule} />}
          </Loaded>
        )
        : <Refused text={refused} />}
    </Screen>
  )
}
