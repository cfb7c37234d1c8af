/** The events of a task, newest first, and a bar of its phases. */
import type { Task, TaskEvent } from "../../../client/promise/Types.ts"
import { duration, now } from "../../clock.ts"
import { Moment, Status, wordOf } from "../../components/Basics.tsx"
import { Icon } from "../../components/Icon.tsx"
import { Paged } from "../../components/Paged.tsx"
import { Empty, Skeleton } from "../../components/Screen.tsx"
import { DataTable } from "../../components/Table.tsx"
import { type Phase, phasesOf } from "../../phases.ts"

/** A deadline that lies further ahead than the past is long would hide the phases. */
const deadlineMark = (task: Task, phases: ReadonlyArray<Phase>) => {
  const until = task.waiting_on == null ? undefined : Date.parse(task.waiting_on.until)
  const first = phases[0]?.from ?? now.value
  const last = phases.at(-1)?.to ?? now.value
  return until === undefined || until - last > (last - first) * 3 ? undefined : Math.max(0, until - last)
}

const Bar = ({ phases, task }: { readonly phases: ReadonlyArray<Phase>; readonly task: Task }) => {
  const left = deadlineMark(task, phases)
  return (
    <div class="phases">
      <div class="phase-bar" aria-hidden="true">
        {phases.map(({ from, status, to }) => (
          <span key={from} class={`phase phase-${status}`} style={{ flexGrow: Math.max(1, to - from) }} />
        ))}
        {left === undefined ? null : <span class="phase phase-left" style={{ flexGrow: Math.max(1, left) }} />}
      </div>
      <ul>
        {phases.map(({ from, status, to }) => (
          <li key={from}>
            <span class={`swatch phase-${status}`} aria-hidden="true" />
            {wordOf(status)} <strong>{duration(to - from)}</strong>
          </li>
        ))}
        {task.waiting_on == null ? null : (
          <li>
            <span class="swatch phase-left" aria-hidden="true" />
            Deadline{" "}
            <strong>
              <Moment at={task.waiting_on.until} />
            </strong>
          </li>
        )}
      </ul>
    </div>
  )
}

const Event = ({ event, previous }: { readonly event: TaskEvent; readonly previous: TaskEvent | undefined }) => (
  <tr>
    <td>
      {event.event === "progress"
        ? (
          <span class="status">
            <Icon name="progress" />Progress
          </span>
        )
        : <Status status={event.status} />}
    </td>
    <td>
      <Moment at={event.occurred_at} />
    </td>
    <td class="number">
      {previous === undefined ? "" : `+${duration(Date.parse(event.occurred_at) - Date.parse(previous.occurred_at))}`}
    </td>
    <td class="number">{event.revision}</td>
  </tr>
)

export const Timeline = ({ events, task }: { readonly task: Task; readonly events: ReadonlyArray<TaskEvent> }) => {
  if (events.length === 0) return <Skeleton />
  const phases = phasesOf(events, now.value)
  const indexed = events.map((event, index) => ({ event, previous: events[index - 1] }))
  return (
    <>
      {phases.length === 0 ? <Empty title="No phases" /> : <Bar phases={phases} task={task} />}
      <Paged items={indexed} what="events" isNewestFirst>
        {(shown) => (
          <DataTable
            region="Events"
            caption="Events, newest first"
            columns={["Event", "Moment", "After", "Revision"]}
            numbers={["After", "Revision"]}
          >
            {shown.map((each) => <Event key={each.event.revision} {...each} />)}
          </DataTable>
        )}
      </Paged>
    </>
  )
}
