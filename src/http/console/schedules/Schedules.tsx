/** The user's schedules by state, newest first. */
import type { PageOf } from "../../client/promise/TaskPages.ts"
import type { Schedule, ScheduleState } from "../../client/promise/Types.ts"
import { client } from "../api.ts"
import { LinkFilter } from "../components/Filters.tsx"
import { chosenPage, Pages } from "../components/Pages.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { AgeCell, Rows } from "../components/Table.tsx"
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
    <AgeCell label="Next" at={schedule.next_at} />
    <AgeCell label="Last" at={schedule.last_at} />
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
      <LinkFilter name="state" label="State" options={states.map((each) => [each, words[each]] as const)} isFirst />
      <Loaded polled={polled.value} refresh={refresh}>{(found) => <List page={found} state={state} />}</Loaded>
    </Screen>
  )
}
