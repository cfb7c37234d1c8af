/** Schedules in words, and the form of one: its request body, and the fields to which the service's errors belong. */
import type { CreateSchedule, Schedule, UpdateSchedule } from "../../client/promise/Types.ts"
import { errorsByField, type FieldErrors as ErrorsOf, formWith, integerProblems, textsOf } from "../forms.ts"

/** The fields below "More options". */
export const moreFields = [
  "key",
  "overlap",
  "starts_at",
  "ends_at",
  "spread",
  "catchup_window",
  "pause_after_failures",
  "callback_url",
  "callback_secret"
] as const

const names = ["name", "type", "cron", "timezone", "run_at", "assistant_id", "text", ...moreFields] as const

export type FieldName = typeof names[number]
export type FieldErrors = ErrorsOf<FieldName>

/** Moments are as the browser's control has them, in its own zone. */
export type ScheduleForm = Readonly<Record<FieldName, string>> & { readonly type: "cron" | "once" }

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone

export const emptyForm: ScheduleForm = { ...formWith(names), type: "cron", cron: "0 9 * * MON-FRI", overlap: "skip" }

const integers = ["assistant_id", "spread", "catchup_window", "pause_after_failures"] as const

/** Of a control for a moment in the browser's zone. */
const toIso = (local: string): string | null => local === "" ? null : new Date(local).toISOString()

const toLocal = (iso: string | null): string => {
  if (iso === null) return ""
  const at = Date.parse(iso)
  return new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const shown = (value: number | string | null) => value === null ? "" : String(value)

/** The form of a schedule. The service does not return the callback secret. */
export const formOf = (schedule: Schedule): ScheduleForm => ({
  ...emptyForm,
  name: shown(schedule.name),
  type: schedule.type,
  cron: schedule.cron ?? emptyForm.cron,
  timezone: schedule.timezone,
  run_at: toLocal(schedule.type === "once" ? schedule.run_at ?? schedule.next_at : null),
  assistant_id: String(schedule.task.assistant_id),
  text: textsOf(schedule.task.input),
  key: shown(schedule.key),
  overlap: schedule.overlap,
  starts_at: toLocal(schedule.starts_at),
  ends_at: toLocal(schedule.ends_at),
  spread: schedule.spread === 0 ? "" : String(schedule.spread),
  catchup_window: schedule.catchup_window === 3600 ? "" : String(schedule.catchup_window),
  pause_after_failures: shown(schedule.pause_after_failures),
  callback_url: shown(schedule.task.callback_url ?? null)
})

/** The problems that the console finds without the service. */
export const problemsOf = (form: ScheduleForm, before: Schedule | undefined): FieldErrors => {
  const problems: Partial<Record<FieldName, string>> = integerProblems(form, integers)
  if (form.assistant_id.trim() === "") problems.assistant_id = "Must be given"
  const hasFiles = before?.task.input.some(({ type }) => type !== "text") === true
  if (form.text.trim() === "" && !hasFiles) problems.text = "Type what the assistant has to do"
  if (form.type === "once" && form.run_at === "") problems.run_at = "Choose a moment"
  if (form.type === "cron" && form.cron.trim() === "") problems.cron = "Must be given"
  return problems
}

const integer = (text: string): number | null => text.trim() === "" ? null : Number(text)

const timingOf = (form: ScheduleForm) => ({
  type: form.type,
  name: form.name.trim() || null,
  key: form.key.trim() || null,
  ...(form.type === "cron"
    ? { cron: form.cron.trim(), timezone: form.timezone.trim() || null }
    : { run_at: toIso(form.run_at) }),
  overlap: form.overlap as Schedule["overlap"],
  starts_at: toIso(form.starts_at),
  ends_at: toIso(form.ends_at),
  spread: integer(form.spread),
  catchup_window: integer(form.catchup_window),
  pause_after_failures: integer(form.pause_after_failures)
})

const taskFields: ReadonlyArray<FieldName> = ["assistant_id", "text", "callback_url", "callback_secret"]

/** The task of the form, with what the form does not show as it was. */
const taskOf = (form: ScheduleForm, before: Schedule | undefined): CreateSchedule["task"] => {
  const { callback_url: _, input = [], ...kept } = before?.task ?? {}
  const others = input.filter(({ type }) => type !== "text")
  return {
    ...kept,
    assistant_id: integer(form.assistant_id) ?? 0,
    input: [...(form.text.trim() === "" ? [] : [{ type: "text" as const, text: form.text }]), ...others],
    ...(form.callback_url.trim() === "" ? {} : { callback_url: form.callback_url.trim() }),
    ...(form.callback_secret === "" ? {} : { callback_secret: form.callback_secret })
  }
}

export const bodyOf = (form: ScheduleForm): CreateSchedule => ({ ...timingOf(form), task: taskOf(form, undefined) })

/** The fields that changed. A task that did not change keeps its secret. */
export const changesOf = (form: ScheduleForm, before: Schedule): UpdateSchedule => {
  const initial = formOf(before)
  const isChanged = (name: string) => form[name as FieldName] !== initial[name as FieldName]
  // Another type needs its moments, changed or not.
  const isNeeded = (name: string) => isChanged("type") && ["cron", "timezone", "run_at"].includes(name)
  const timing = Object.entries(timingOf(form)).filter(([name]) => isChanged(name) || isNeeded(name))
  return { ...Object.fromEntries(timing), ...(taskFields.some(isChanged) ? { task: taskOf(form, before) } : {}) }
}

/** The field of the form to which a dotted path of the service's answer belongs. */
const fieldAt = (path: string): FieldName => {
  const field = path.replace(/^task\./, "").split(".")[0] ?? ""
  if (field === "input" || field === "task") return "text"
  if (field === "delay" || field === "type") return "run_at"
  return names.find((name) => name === field) ?? "text"
}

/** The service's messages by the fields of the form. */
export const fieldErrors = (errors: Readonly<Record<string, ReadonlyArray<string>>>): FieldErrors =>
  errorsByField(errors, fieldAt)

export const presets: ReadonlyArray<readonly [label: string, cron: string]> = [
  ["Every hour", "0 * * * *"],
  ["Every day", "0 9 * * *"],
  ["Weekdays", "0 9 * * MON-FRI"],
  ["Every Monday", "0 9 * * MON"],
  ["Every month", "0 9 1 * *"]
]

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
const months = [
  "",
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December"
]

const and = (texts: ReadonlyArray<string>) =>
  texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`

/** A list of numbers, ranges and names, as in `Monday to Friday and Sunday`. */
const listed = (field: string, names: ReadonlyArray<string>) => {
  const word = (value: string) =>
    names[Number(value)] ?? names.find((name) => name.slice(0, 3).toUpperCase() === value.toUpperCase()) ?? value
  return and(
    field.split(",").map((item) => {
      const [range = "", step] = item.split("/")
      const [from = "", to] = range.split("-")
      const text = to === undefined ? word(from) : `${word(from)} to ${word(to)}`
      return step === undefined ? text : `${text === "*" ? "" : `${text}, `}every ${step}`
    })
  )
}

const pad = (number: string) => number.padStart(2, "0")

const isNumbers = (field: string) => /^\d{1,2}(,\d{1,2}){0,3}$/.test(field)

const timeWords = (minute: string, hour: string): string => {
  if (/^\d{1,2}$/.test(minute) && isNumbers(hour)) {
    return `at ${and(hour.split(",").map((each) => `${pad(each)}:${pad(minute)}`))}`
  }
  const step = /^\*\/(\d+)$/.exec(minute)?.[1]
  const minutes = minute === "*"
    ? "every minute"
    : step !== undefined
    ? `every ${step} minutes`
    : `at minute ${listed(minute, [])}`
  const hourStep = /^\*\/(\d+)$/.exec(hour)?.[1]
  if (hour === "*") {
    return minute === "0"
      ? "every hour"
      : step === undefined && minute !== "*"
      ? `${minutes} of every hour`
      : minutes
  }
  if (hourStep !== undefined) return `${minutes} of every ${hourStep} hours`
  return `${minutes} of the hours ${listed(hour, [])}`
}

const dayWords = (day: string, weekday: string): string => {
  const ofMonth = `on day ${listed(day, [])} of the month`
  const ofWeek = `on ${listed(weekday, weekdays)}`
  if (day === "*") return weekday === "*" ? "" : ofWeek
  if (weekday === "*") return ofMonth
  return `${ofMonth}${day.startsWith("*") || weekday.startsWith("*") ? ", if it is" : " and"} ${ofWeek}`
}

/** A cron expression in words, as in `At 09:00 on Monday to Friday`; undefined for one that has not five fields. */
export const cronWords = (cron: string): string | undefined => {
  const [minute, hour, day, month, weekday, ...more] = cron.trim().split(/\s+/)
  if (minute === undefined || hour === undefined || day === undefined || month === undefined || weekday === undefined) {
    return undefined
  }
  if (more.length > 0) return undefined
  const days = dayWords(day, weekday)
  const time = timeWords(minute, hour)
  const parts = [time, days === "" && time.startsWith("at ") && !time.includes("hour") ? "every day" : days]
  const text = [...parts, month === "*" ? "" : `in ${listed(month, months)}`].filter((part) => part !== "").join(" ")
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** A moment as a person in a time zone says it. */
export const momentWords = (at: string, timeZone: string): string => {
  const options = {
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    timeZoneName: "short"
  } as const
  try {
    return new Intl.DateTimeFormat("en-GB", { ...options, timeZone }).format(Date.parse(at))
  } catch {
    // A browser may know fewer zones than the service.
    return new Intl.DateTimeFormat("en-GB", { ...options, timeZone: "UTC" }).format(Date.parse(at))
  }
}

/** When a schedule fires, in words. */
export const rhythmWords = ({ cron, last_at: last, next_at: next, run_at: runAt, timezone }: Schedule): string => {
  if (cron !== null) return `${cronWords(cron) ?? cron}, ${timezone}`
  const at = runAt ?? next ?? last
  return at === null ? "Once" : `Once, ${momentWords(at, timezone)}`
}
