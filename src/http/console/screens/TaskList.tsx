/** The user's tasks by status, newest first. Rows do not move while one has the focus. */
import { useRef, useState } from "preact/hooks"
import type { TaskPage } from "../../client/promise/TaskPages.ts"
import type { TaskStatus, TaskSummary } from "../../client/promise/Types.ts"
import { active, interrupted, intervalOf } from "../active.ts"
import { client, config } from "../api.ts"
import { Age, CopyButton, placeOf, shortId, Status, Took, wordOf } from "../components/Basics.tsx"
import { Confirm } from "../components/Dialog.tsx"
import { chosenPage, Pages } from "../components/Pages.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { Rows } from "../components/Table.tsx"
import { TextFilter } from "../components/TextFilter.tsx"
import { useKeys } from "../keys.ts"
import { announce, notify } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { taskFilter } from "../preferences.ts"
import { href, query, queryOf } from "../Router.ts"

const statuses: ReadonlyArray<TaskStatus> = ["pending", "processing", "interrupted", "completed", "failed", "canceled"]

const perPage = 25

/** The chosen status; undefined shows all. */
const chosenStatus = () => statuses.find((status) => status === query.value.get("status"))

const Filter = ({ status: chosen }: { readonly status: TaskStatus | undefined }) => (
  <nav class="filter" aria-label="Status">
    {[undefined, ...statuses].map((status) => {
      const isChosen = status === chosen
      return (
        <a
          key={status ?? "all"}
          href={href(`/tasks${queryOf({ status, q: query.value.get("q") })}`)}
          aria-current={isChosen ? "true" : undefined}
        >
          {status === undefined ? "All" : wordOf(status)}
        </a>
      )
    })}
  </nav>
)

/** What a row says below the request: the tools that wait, the error, the labels. */
const detailsOf = (
  { error, metadata = {}, pending_tool_calls: calls = [], waiting_on: waiting }: TaskSummary
): ReadonlyArray<string> => [
  ...[placeOf(waiting)].filter((place) => place !== undefined),
  ...calls.length === 0
    ? []
    : [`Waits for ${calls.slice(0, 3).map(({ name }) => name).join(", ")}${calls.length > 3 ? ", …" : ""}`],
  ...error === null ? [] : [error],
  ...Object.entries(metadata).slice(0, 3).map(([key, value]) => `${key}: ${value}`)
]

/** Characters of one detail. */
const maxDetail = 160

/** All of the row is the link. */
const Row = ({ task }: { readonly task: TaskSummary }) => {
  const details = detailsOf(task)
  return (
    <tr class="linked">
      <td class="cell-status">
        <Status status={task.status} waiting={task.waiting_on} />
      </td>
      <th scope="row" class="cell-asks">
        <a href={href(`/tasks/${task.uuid}`)} data-row="" title={task.uuid}>
          {task.excerpt == null ? <code>{shortId(task.uuid)}</code> : <bdi>{task.excerpt}</bdi>}
        </a>
        {details.length === 0 ? null : (
          <span class="details">
            {details.map((detail, index) => <bdi key={index}>{detail.slice(0, maxDetail)}</bdi>)}
          </span>
        )}
      </th>
      <td class="cell-id">
        <code>{shortId(task.uuid)}</code>
        <CopyButton what="uuid" text={() => task.uuid} />
      </td>
      <td class="cell-age">
        <Age at={task.created_at} />
      </td>
      <td class="cell-took">
        <span class="card-label">took</span>
        <Took from={task.created_at} to={task.completed_at} />
      </td>
    </tr>
  )
}

const CancelAll = ({ onClose }: { readonly onClose: () => void }) => {
  const count = interrupted().length
  const cancel = async () => {
    const { canceled } = await client.tasks.cancelInterrupted()
    notify(canceled === 1 ? "1 task canceled" : `${canceled} tasks canceled`)
    active.refresh()
  }
  return (
    <Confirm
      title={count === 1 ? "Cancel 1 interrupted task?" : `Cancel ${count} interrupted tasks?`}
      action="Cancel them"
      isDangerous
      onConfirm={cancel}
      onClose={onClose}
    >
      <p>All of your interrupted tasks end as canceled. Their tool calls are not answered. This cannot be undone.</p>
    </Confirm>
  )
}

/** How many rows differ between two pages. */
const changes = (shown: TaskPage, next: TaskPage): number => {
  const known = new Map(shown.data.map(({ status, uuid }) => [uuid, status]))
  return next.data.filter(({ status, uuid }) => known.get(uuid) !== status).length
}

/** The page to show: the newest one, unless the user is in the middle of the rows. */
const useStill = (next: TaskPage) => {
  const shown = useRef(next)
  const rows = useRef<HTMLDivElement>(null)
  const [, update] = useState(0)
  const isOther = shown.current.meta.current_page !== next.meta.current_page
  const isBusy = rows.current?.contains(document.activeElement) === true ||
    document.querySelector("dialog[open]") !== null
  if (isOther || !isBusy) shown.current = next
  return {
    rows,
    shown: shown.current,
    waiting: changes(shown.current, next),
    show: () => {
      shown.current = next
      update((count) => count + 1)
    }
  }
}

const List = ({ page, refresh, status, text }: {
  readonly page: TaskPage
  readonly status: TaskStatus | undefined
  readonly text: string | null
  readonly refresh: () => void
}) => {
  const { rows, show, shown, waiting } = useStill(page)
  useKeys({ r: waiting > 0 ? show : refresh })
  if (shown.data.length === 0) {
    return status === undefined && text === null
      ? (
        <Empty title="No tasks yet">
          <a class="button primary" href={href("/new")}>New task</a>
        </Empty>
      )
      : (
        <Empty
          title={`No ${status === undefined ? "" : `${wordOf(status).toLowerCase()} `}task${
            text === null ? "s" : " matches"
          }`}
        >
          <a class="button" href={href("/tasks")}>Show all tasks</a>
        </Empty>
      )
  }
  return (
    <div ref={rows}>
      {waiting === 0 ? null : (
        <button type="button" class="waiting" onClick={show}>
          {waiting === 1 ? "1 change" : `${waiting} changes`} — press <kbd>r</kbd> or click
        </button>
      )}
      <Rows caption="Tasks, newest first" columns={["Status", "Request", "Task", "Created", "Took"]}>
        {shown.data.map((task) => <Row key={task.uuid} task={task} />)}
      </Rows>
      <Pages meta={shown.meta} one="task" many="tasks" />
    </div>
  )
}

export const TaskList = () => {
  const status = chosenStatus()
  const page = chosenPage()
  const [isAsking, setAsking] = useState(false)
  const text = query.value.get("q")
  taskFilter.value = status === undefined ? "" : `?status=${status}`
  const { refresh, state } = usePoll<TaskPage>(
    async (signal) => {
      const found = await client.tasks.list({
        page,
        per_page: perPage,
        include: ["excerpt", "metadata", "waiting_on"],
        status,
        q: text ?? undefined,
        maxRetries: 0,
        signal
      })
      const before = state.peek().data
      const changed = before === undefined ? 0 : changes(before, found)
      if (changed > 0) announce(changed === 1 ? "1 task changed" : `${changed} tasks changed`)
      return found
    },
    intervalOf,
    [status, page, text]
  )
  const used = active.state.value.data?.meta.total
  const waiting = interrupted().length
  return (
    <Screen
      title="Tasks"
      actions={
        <>
          {used === undefined
            ? null
            : <span class="slots">{used} of {config.value.limits.max_active_tasks} slots in use</span>}
          {waiting === 0 ?
            null :
            <button type="button" class="button" onClick={() => setAsking(true)}>Cancel all interrupted</button>}
          <a class="button primary" href={href("/new")}>New task</a>
        </>
      }
    >
      <div class="filters" role="search">
        <Filter status={status} />
        <TextFilter name="q" label="Text, label or id" isFirst />
      </div>
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => (
          <List key={`${status} ${page} ${text}`} page={found} status={status} text={text} refresh={refresh} />
        )}
      </Loaded>
      {isAsking ? <CancelAll onClose={() => setAsking(false)} /> : null}
    </Screen>
  )
}
