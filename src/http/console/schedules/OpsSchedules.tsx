/** Schedules of all users: what is late now, what was late or missed in the last day, what is paused. */
import type { Schedule, ScheduleRun, TaskStatus } from "../../client/promise/Types.ts"
import { duration } from "../clock.ts"
import { Moment, shortId, Status } from "../components/Basics.tsx"
import { Select, TextFilter } from "../components/Filters.tsx"
import { Icon } from "../components/Icon.tsx"
import { ClearFilters, useRows } from "../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { AgeCell, Cell, Rows, UserCell } from "../components/Table.tsx"
import { href, query, queryOf } from "../Router.ts"
import { type Outcome, RunOutcome, State, Strip } from "./Outcomes.tsx"
import { cronWords } from "./schedules.ts"

interface Owner {
  readonly id: string
  readonly sub: string
  readonly key: string | null
  readonly name: string | null
}

type Run = Owner & ScheduleRun & { readonly task_status: TaskStatus | null }
type Row =
  & Owner
  & Pick<
    Schedule,
    "state" | "paused_reason" | "cron" | "timezone" | "next_at" | "last_at" | "created_at"
  >
  & { readonly outcomes: ReadonlyArray<Outcome> }

export interface FoundSchedules {
  readonly now: { readonly late: number; readonly waiting: number; readonly oldest_late_ms: number | null }
  readonly runs: ReadonlyArray<Run>
  readonly schedules: ReadonlyArray<Row>
  /** Whether no more match. */
  readonly complete: boolean
}

const options = [
  ["", "Problems"],
  ["late", "Started late"],
  ["waiting", "Waits"],
  ["missed", "Missed"],
  ["failed", "Failed"],
  ["paused", "Paused schedules"],
  ["active", "Active schedules"],
  ["all", "All schedules"]
] as const

const Present = ({ now: { late, oldest_late_ms: oldest, waiting } }: Pick<FoundSchedules, "now">) =>
  late === 0 ?
    (
      <p class="calm">
        <Icon name="completed" />
        No moment is late now{waiting === 0 ? "" : waiting === 1 ? "; 1 run waits" : `; ${waiting} runs wait`}
      </p>
    ) :
    (
      <p class="banner" role="status">
        <Icon name="warning" />
        <span>
          {late === 1 ? "1 moment is" : `${late.toLocaleString("en")} moments are`} late now, the oldest by{" "}
          {duration(oldest ?? 0)}
        </span>
      </p>
    )

const NameCell = ({ row: { id, key, name } }: { readonly row: Owner }) => (
  <th scope="row" class="cell-name">
    <a href={href(`/ops/schedules${queryOf({ show: "all", q: id })}`)} data-row="" title={id}>
      <bdi>{name ?? key ?? shortId(id)}</bdi>
    </a>
  </th>
)

const ofUser = (sub: string) => `/ops/schedules${queryOf({ show: "all", q: sub })}`

const RunRow = ({ run }: { readonly run: Run }) => (
  <tr>
    <td class="cell-status">
      {run.task_status === null ? <RunOutcome {...run} /> : <Status status={run.task_status} />}
    </td>
    <NameCell row={run} />
    <UserCell sub={run.sub} to={ofUser(run.sub)} />
    <Cell label="Moment" class="cell-moment">
      <Moment at={run.scheduled_for} />
    </Cell>
    <td class="cell-detail">
      <bdi>
        {run.started_at === null
          ? (run.error ?? "").slice(0, 300)
          : `${duration(Date.parse(run.started_at) - Date.parse(run.scheduled_for))} late`}
      </bdi>
    </td>
    <Cell label="Task" class="cell-task">
      {run.task_uuid === null ? "–" : (
        <a href={href(`/ops/tasks/${run.task_uuid}`)} title={run.task_uuid}>
          <code>{shortId(run.task_uuid)}</code>
        </a>
      )}
    </Cell>
  </tr>
)

const ScheduleRow = ({ row }: { readonly row: Row }) => (
  <tr>
    <td class="cell-status">
      <State state={row.state} />
    </td>
    <NameCell row={row} />
    <UserCell sub={row.sub} to={ofUser(row.sub)} />
    <td class="cell-detail">
      <bdi>
        {row.paused_reason?.message.slice(0, 300)
          ?? (row.cron === null ? "Once" : `${cronWords(row.cron) ?? row.cron}, ${row.timezone}`)}
      </bdi>
    </td>
    <Cell label="Outcomes">
      {row.outcomes.length === 0 ? "–" : <Strip moments={row.outcomes} />}
    </Cell>
    <AgeCell label="Next" at={row.next_at} />
    <AgeCell label="Last" at={row.last_at} />
  </tr>
)

const Found = ({ found: { complete, runs, schedules } }: { readonly found: FoundSchedules }) => {
  const ofRuns = !["paused", "active", "ended", "all"].includes(query.value.get("show") ?? "")
  if (runs.length === 0 && schedules.length === 0) {
    return <Empty title={ofRuns ? "Nothing in the last 24 hours" : "No schedule matches"} />
  }
  return (
    <div>
      {ofRuns
        ? (
          <Rows
            caption="Moments of the last 24 hours, newest first"
            columns={["Outcome", "Schedule", "User", "Moment", "Detail", "Task"]}
          >
            {runs.map((run) => <RunRow key={`${run.id} ${run.scheduled_for}`} run={run} />)}
          </Rows>
        )
        : (
          <Rows
            caption="Schedules of all users, newest first"
            columns={["State", "Schedule", "User", "When", "Outcomes", "Next", "Last"]}
          >
            {schedules.map((row) => <ScheduleRow key={row.id} row={row} />)}
          </Rows>
        )}
      {complete ? null : <p class="hint">The newest 100. Search for a user, a key, a name or an id to see others.</p>}
    </div>
  )
}

export const OpsSchedules = () => {
  const { polled, refresh } = useRows<FoundSchedules>(() =>
    `/schedules${queryOf({ show: query.value.get("show"), q: query.value.get("q") })}`
  )
  return (
    <Screen title="Schedules of all users">
      <div class="filters" role="search">
        <TextFilter name="q" label="User, key, name or id" isFirst />
        <Select name="show" label="Show" options={options} />
        <ClearFilters />
      </div>
      <Loaded polled={polled} refresh={refresh}>
        {(found) => (
          <>
            <Present now={found.now} />
            <Found found={found} />
          </>
        )}
      </Loaded>
    </Screen>
  )
}
