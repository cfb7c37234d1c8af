/** The user's schedules by state, newest first. */
import type { PageOf } from "../../client/promise/TaskPages.ts"
import type { Schedule, ScheduleState } from "../../client/promise/Types.ts"
import { client } from "../api.ts"
import { Age } from "../components/Basics.tsx"
import { chosenPage, Pages } from "../components/Pages.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { Cell, Rows } from "../components/Table.tsx"
import { useKeys } from "../keys.ts"
import { usePoll } from "../poll.ts"
import { href, query } from "../Router.ts"
import { State } from "./Outcomes.tsx"
import { rhythmWords } from "./schedules.ts"

const states: ReadonlyArray<ScheduleState> = ["active", "paused", "ended"]
const words = { active: "Active", paused: "Paused", ended: "Ended" } as const

const perPage = 25
/** Milliseconds. */
const interval = 15_000

const Filter = ({ state: chosen }: { readonly state: ScheduleState | undefined }) => (
  <nav class="filter" aria-label="State">
    {[undefined, ...states].map((state) => (
      <a
        key={state ?? "all"}
        href={href(`/schedules${state === undefined ? "" : `?state=${state}`}`)}
        aria-current={state === chosen ? "true" : undefined}
        data-filter={state === chosen ? "" : undefined}
      >
        {state === undefined ? "All" : words[state]}
      </a>
    ))}
  </nav>
)

const Row = ({ schedule }: { readonly schedule: Schedule }) => (
  <tr>
    <td class="cell-status">
      <State state={schedule.state} />
    </td>
    <th scope="row" class="cell-name">
      <a href={href(`/schedules/${schedule.id}`)} data-row="">
        <bdi>{schedule.name ?? schedule.key ?? "Without a name"}</bdi>
      </a>
    </th>
    <td class="cell-detail">
      <bdi>{schedule.paused_reason?.message.slice(0, 300) ?? rhythmWords(schedule)}</bdi>
    </td>
    <Cell label="Next" class="cell-age">{schedule.next_at === null ? "–" : <Age at={schedule.next_at} />}</Cell>
    <Cell label="Last" class="cell-age">{schedule.last_at === null ? "–" : <Age at={schedule.last_at} />}</Cell>
  </tr>
)

const List = ({ page: { data, meta }, state }: {
  readonly page: PageOf<Schedule>
  readonly state: ScheduleState | undefined
}) => {
  if (data.length === 0 && state !== undefined) {
    return (
      <Empty title={`No ${words[state].toLowerCase()} schedules`}>
        <a class="button" href={href("/schedules")}>Show all schedules</a>
      </Empty>
    )
  }
  if (data.length === 0) {
    return (
      <Empty title="No schedules yet">
        <p>A schedule makes tasks by itself: every morning, or once later.</p>
        <a class="button primary" href={href("/schedules/new")}>New schedule</a>
      </Empty>
    )
  }
  return (
    <div>
      <Rows caption="Schedules, newest first" columns={["State", "Schedule", "When", "Next", "Last"]}>
        {data.map((schedule) => <Row key={schedule.id} schedule={schedule} />)}
      </Rows>
      <Pages meta={meta} one="schedule" many="schedules" />
    </div>
  )
}

export const Schedules = () => {
  const state = states.find((each) => each === query.value.get("state"))
  const page = chosenPage()
  const { refresh, state: polled } = usePoll(
    (signal) => client.schedules.list({ state, page, per_page: perPage, maxRetries: 0, signal }),
    () => interval,
    [state, page]
  )
  useKeys({ r: refresh })
  return (
    <Screen
      title="Schedules"
      actions={<a class="button primary" href={href("/schedules/new")}>New schedule</a>}
    >
      <Filter state={state} />
      <Loaded polled={polled.value} refresh={refresh}>{(found) => <List page={found} state={state} />}</Loaded>
    </Screen>
  )
}
