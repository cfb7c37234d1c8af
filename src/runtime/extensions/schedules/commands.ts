/** The group of commands `schedules`: tasks at the moments of a rhythm, or once later. */
import { Effect, Option, Record } from "effect"
import { Argument, Command } from "effect/cli"
import type { CallOptions } from "../../../http/client/promise/Transport.ts"
import type { CreateSchedule, Schedule, ScheduleState, UpdateSchedule } from "../../../http/client/promise/Types.ts"
import type { SchedulesResource } from "../../../http/schedules/SchedulesResource.ts"
import * as Flags from "../../cli/Flags.ts"
import { optionalInt, optionalText } from "../../cli/Flags.ts"
import type * as Output from "../../cli/Output.ts"
import { call, described, print, printResult } from "../../cli/Root.ts"
import { limit, printTasks } from "../../cli/TaskCommands.ts"

const id = Argument.String("id").pipe(Argument.withDescription("Schedule id"))

const rhythmOf = ({ cron, delay, run_at, timezone }: Schedule) =>
  cron === null ? run_at ?? `after ${delay} s` : `${cron} ${timezone}`

const render = (schedule: Schedule, { age, fields }: Output.Output) =>
  fields([
    ["Schedule", schedule.id],
    ["Key", schedule.key],
    ["Name", schedule.name],
    ["State", schedule.state],
    ["Paused", schedule.paused_reason?.message],
    ["Rhythm", rhythmOf(schedule)],
    ["Next", schedule.next_at],
    ["Last", schedule.last_at === null ? null : age(schedule.last_at)],
    ...(schedule.upcoming ?? []).slice(1).map((moment) => ["Then", moment] as const)
  ])

const fields = {
  key: optionalText("key", "Name of the client's own, unique for the user"),
  name: optionalText("name", "Name for people"),
  cron: optionalText("cron", "Rhythm: minute, hour, day, month and weekday, as in '0 9 * * MON-FRI'"),
  timezone: optionalText("timezone", "IANA time zone (default: UTC)"),
  run_at: optionalText("run-at", "Moment of a schedule that fires once, in ISO 8601"),
  delay: optionalInt("delay", "Seconds until a schedule fires once"),
  starts_at: optionalText("starts-at", "Nothing fires before this moment"),
  ends_at: optionalText("ends-at", "Nothing fires from this moment on"),
  spread: optionalInt("spread", "Seconds by which a moment is later at most"),
  overlap: optionalText("overlap", "While the task before is active: skip, queue or allow"),
  catchup_window: optionalInt("catchup-window", "Seconds in which a missed moment is made up for"),
  pause_after_failures: optionalInt("pause-after-failures", "Failed tasks in a row that pause the schedule"),
  body: Flags.body
}

const task = {
  text: Argument.String("text").pipe(Argument.withDescription("Text input for the assistant"), Argument.variadic()),
  assistant: optionalInt("assistant", "Assistant id (default: 1)")
}

type Given = Readonly<Record<string, Option.Option<string | number>>>

interface Asked {
  readonly text: ReadonlyArray<string>
  readonly assistant: Option.Option<number>
  readonly body: Readonly<Record<string, unknown>>
}

/** The fields that were given. The service checks them, and names what is missing. */
const bodyOf = ({ assistant, body, text }: Asked, options: Given): Readonly<Record<string, unknown>> => ({
  ...Record.getSomes(options),
  ...(text.length === 0 ? {} : {
    task: {
      assistant_id: Option.getOrElse(assistant, () => 1),
      input: [{ type: "text", text: text.join(" ") }]
    }
  }),
  ...body
})

// Fields may be missing, and those of `--body` have any type: the service checks them.
const draftOf = (asked: Asked, options: Given) =>
  ({
    type: options["cron"] && Option.isSome(options["cron"]) ? "cron" : "once",
    ...bodyOf(asked, options)
  }) as unknown as CreateSchedule

const config = { ...task, ...fields }

const create = Command.make("create", config, ({ assistant, body, text, ...options }) => {
  const draft = draftOf({ assistant, body, text }, options)
  return printResult(call(({ schedules }, signal) => schedules.create(draft, { signal })), render)
}).pipe(
  described("Create a schedule", "schedules create --cron '0 9 * * MON-FRI' --timezone Europe/Berlin 'Good morning'")
)

const put = Command.make(
  "put",
  { ofKey: Argument.String("key").pipe(Argument.withDescription("Key of the schedule")), ...config },
  ({ assistant, body, ofKey, text, ...options }) => {
    const draft = draftOf({ assistant, body, text }, options)
    return printResult(call(({ schedules }, signal) => schedules.put(ofKey, draft, { signal })), render)
  }
).pipe(
  described("Create the schedule with a key, or replace it", "schedules put report --cron '0 9 * * *' 'Good morning'")
)

const update = Command.make("update", { id, ...config }, ({ assistant, body, id, text, ...options }) => {
  const changes: UpdateSchedule = bodyOf({ assistant, body, text }, options)
  return printResult(call(({ schedules }, signal) => schedules.update(id, changes, { signal })), render)
}).pipe(described("Change the given fields of a schedule", "schedules update ID --cron '0 8 * * *'"))

const paging = {
  page: optionalInt("page", "Page number (default: 1)"),
  per_page: optionalInt("per-page", "Page size (default: 25; at most 100)")
}

const list = Command.make(
  "list",
  { state: optionalText("state", "Only this state: active, paused or ended"), ...paging },
  (options) => {
    const query = Record.getSomes<string, string | number>(options)
    return printResult(
      // The service refuses another state.
      call(({ schedules }, signal) => schedules.list({ ...query as { readonly state?: ScheduleState }, signal })),
      ({ data }, { table }) =>
        table(
          ["SCHEDULE", "STATE", "NEXT", "RHYTHM", "NAME"],
          data.map((schedule) => [
            schedule.id,
            schedule.state,
            schedule.next_at ?? "-",
            rhythmOf(schedule),
            schedule.name ?? schedule.key ?? ""
          ]),
          "No schedules."
        )
    )
  }
).pipe(described("List schedules, newest first", "schedules list --state active"))

const ofOne = (
  name: string,
  description: string,
  send: (schedules: SchedulesResource, id: string, options: CallOptions) => Promise<Schedule>
) =>
  Command.make(
    name,
    { id },
    ({ id }) => printResult(call(({ schedules }, signal) => send(schedules, id, { signal })), render)
  ).pipe(described(description, `schedules ${name} ID`))

const get = ofOne(
  "get",
  "Show a schedule with its next moments",
  (schedules, id, options) => schedules.get(id, options)
)

const resume = ofOne("resume", "Resume a schedule", (schedules, id, options) => schedules.resume(id, options))

const pause = Command.make(
  "pause",
  { id, reason: optionalText("reason", "Why") },
  ({ id, reason }) =>
    printResult(
      call(({ schedules }, signal) => schedules.pause(id, Option.getOrUndefined(reason), { signal })),
      render
    )
).pipe(described("Pause a schedule", "schedules pause ID --reason Holidays"))

const remove = Command.make(
  "delete",
  { id },
  ({ id }) =>
    Effect.andThen(
      call(({ schedules }, signal) => schedules.delete(id, { signal })),
      print({ id, deleted: true }, () => `deleted  ${id}`)
    )
).pipe(described("Delete a schedule; its tasks stay", "schedules delete ID"))

const trigger = Command.make(
  "trigger",
  { id },
  ({ id }) => printResult(call(({ schedules }, signal) => schedules.trigger(id, { signal })), ({ uuid }) => uuid)
).pipe(described("Run a schedule now", "schedules trigger ID"))

const runs = Command.make(
  "runs",
  { id, ...paging },
  ({ id, ...options }) =>
    printResult(
      call(({ schedules }, signal) => schedules.runs(id, { ...Record.getSomes(options), signal })),
      ({ data }, { table }) =>
        table(
          ["MOMENT", "OUTCOME", "COUNT", "TASK", "ERROR"],
          data.map(({ count, error, outcome, scheduled_for, task_uuid }) => [
            scheduled_for,
            outcome,
            String(count),
            task_uuid ?? "-",
            error ?? ""
          ]),
          "No runs."
        )
    )
).pipe(described("List what became of the moments of a schedule", "schedules runs ID"))

const tasks = Command.make("tasks", { id, limit }, ({ id, limit }) => printTasks(limit, { schedule: id })).pipe(
  described("List the tasks of a schedule, newest first", "schedules tasks ID")
)

const preview = Command.make(
  "preview",
  {
    cron: Argument.String("cron").pipe(Argument.withDescription("Rhythm, as in '0 9 * * *'")),
    timezone: fields.timezone,
    count: optionalInt("count", "Moments to show (default: 5; at most 20)"),
    after: optionalText("after", "Show the moments after this one (default: now)")
  },
  ({ cron, ...options }) =>
    printResult(
      call(({ schedules }, signal) =>
        schedules.preview({ cron, ...Record.getSomes<string, string | number>(options) }, { signal })
      ),
      (moments) => moments.join("\n")
    )
).pipe(described("Show the next moments of a rhythm", "schedules preview '0 9 * * MON-FRI' --timezone Europe/Berlin"))

export const commands = [
  Command.make("schedules").pipe(
    Command.withSubcommands([create, put, list, get, update, pause, resume, trigger, runs, tasks, preview, remove]),
    described("Schedules: tasks at the moments of a rhythm, or later", "schedules list")
  )
] as const
