/** The user's tasks by status, assistant, time, label and text, newest first. Rows do not move while one has the focus. */
import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import type { TaskPage } from "../../client/promise/TaskPages.ts"
import type { TaskStatus, TaskSummary } from "../../client/promise/Types.ts"
import { active, intervalOf } from "../active.ts"
import { client } from "../api.ts"
import * as assistants from "../assistants.ts"
import { Age, IconButton, placeOf, shortId, Status, Took, wordOf } from "../components/Basics.tsx"
import { Examples } from "../components/Examples.tsx"
import { change, LinkFilter, Select, TextFilter } from "../components/Filters.tsx"
import { chosenPage, Pages } from "../components/Pages.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { Rows } from "../components/Table.tsx"
import { config } from "../config.ts"
import { useKeys } from "../keys.ts"
import { announce } from "../messages.ts"
import { usePoll } from "../poll.ts"
import { taskFilter } from "../preferences.ts"
import { ownLabels } from "../related.ts"
import { href, query, queryOf } from "../Router.ts"

const statuses: ReadonlyArray<TaskStatus> = ["pending", "processing", "interrupted", "completed", "failed", "canceled"]

const perPage = 25

/** The chosen status; undefined shows all. */
const chosenStatus = () => statuses.find((status) => status === query.value.get("status"))

const ranges: ReadonlyArray<readonly [name: string, label: string, days: number]> = [
  ["day", "Last 24 hours", 1],
  ["week", "Last 7 days", 7],
  ["month", "Last 30 days", 30]
]

/** The parameters of the list that the address has. A label is `key: value`. */
const chosenFilter = () => {
  const [, key, value] = /^([^:]+): ?(.+)$/.exec(query.value.get("label") ?? "") ?? []
  const days = ranges.find(([name]) => name === query.value.get("created"))?.[2]
  const assistant = Number(query.value.get("assistant"))
  return {
    q: query.value.get("q") ?? undefined,
    metadata: key === undefined || value === undefined ? {} : { [key.trim()]: value },
    assistant_id: Number.isSafeInteger(assistant) && assistant > 0 ? assistant : undefined,
    from: days === undefined ? undefined : new Date(Date.now() - days * 86_400_000).toISOString()
  }
}

const filterNames = ["q", "label", "created", "assistant"]
const isFiltered = () => filterNames.some((name) => query.value.has(name))

/** Offered where the backend lists more than one assistant, or the address has one. */
const AssistantFilter = () => {
  useEffect(() => {
    if (assistants.listed.value === undefined) void assistants.load()
  }, [])
  const listed = assistants.listed.value ?? []
  const chosen = query.value.get("assistant")
  if (listed.length < 2 && chosen === null) return null
  const options = listed.map(({ id, name }) => [id, name || `Assistant ${id}`] as const)
  return (
    <Select
      name="assistant"
      label="Assistant"
      options={[
        ["", "All"],
        ...options,
        ...chosen === null || listed.some(({ id }) => id === chosen) ? [] : [[chosen, `Assistant ${chosen}`] as const]
      ]}
    />
  )
}

/** The label that a link has set. */
const ChosenLabel = () => {
  const label = query.value.get("label")
  return label === null ? null : (
    <p class="chosen">
      Label <bdi>{label}</bdi>
      <IconButton icon="close" label="Remove the filter by label" onClick={() => change("label", "")} />
    </p>
  )
}

/** Characters of one detail. */
const maxDetail = 160

/** What a row says below the request: the tools that wait, the error, the labels. */
const detailsOf = (
  { error, metadata = {}, pending_tool_calls: calls = [], waiting_on: waiting }: TaskSummary
): ReadonlyArray<ComponentChildren> => [
  ...[placeOf(waiting)].filter((place) => place !== undefined),
  ...calls.length === 0
    ? []
    : [`Waits for ${calls.slice(0, 3).map(({ name }) => name).join(", ")}${calls.length > 3 ? ", …" : ""}`],
  ...error === null ? [] : [<bdi>{error.slice(0, maxDetail)}</bdi>],
  ...Object.entries(ownLabels(metadata)).slice(0, 3).map(([key, value]) => (
    <>
      <bdi>{key}</bdi>: <bdi>{value.slice(0, maxDetail)}</bdi>
    </>
  ))
]

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
            {details.map((detail, index) => <span key={index}>{detail}</span>)}
          </span>
        )}
      </th>
      <td class="cell-assistant">
        {task.assistant_id == null ? null : <bdi>{assistants.nameOf(task.assistant_id)}</bdi>}
      </td>
      <td class="cell-age">
        <Age at={task.created_at} />
      </td>
      <td class="cell-took">
        <span class="card-label">{task.completed_at === null ? "for" : "took"}</span>
        <Took from={task.created_at} to={task.completed_at} />
      </td>
    </tr>
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

const List = ({ page, refresh, status }: {
  readonly page: TaskPage
  readonly status: TaskStatus | undefined
  readonly refresh: () => void
}) => {
  const { rows, show, shown, waiting } = useStill(page)
  useKeys({ r: waiting > 0 ? show : refresh })
  if (shown.data.length === 0) {
    return status === undefined && !isFiltered()
      ? (
        <Empty title="No tasks yet">
          <p>Each task has a row here, with its status, what it asks and how long it took.</p>
          <Examples />
        </Empty>
      )
      : (
        <Empty
          title={`No ${status === undefined ? "" : `${wordOf(status).toLowerCase()} `}task${
            isFiltered() ? " matches" : "s"
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
      <Rows caption="Tasks, newest first" columns={["Status", "Request", "Assistant", "Created", "Time"]}>
        {shown.data.map((task) => <Row key={task.uuid} task={task} />)}
      </Rows>
      <Pages meta={shown.meta} one="task" many="tasks" />
    </div>
  )
}

export const TaskList = () => {
  const status = chosenStatus()
  const page = chosenPage()
  const filter = JSON.stringify([...query.value].filter(([name]) => filterNames.includes(name)))
  taskFilter.value = status === undefined ? "" : `?status=${status}`
  const { refresh, state } = usePoll<TaskPage>(
    async (signal) => {
      const found = await client.tasks.list({
        page,
        per_page: perPage,
        include: ["excerpt", "metadata", "waiting_on", "assistant"],
        status,
        ...chosenFilter(),
        maxRetries: 0,
        signal
      })
      const before = state.peek().data
      const changed = before === undefined ? 0 : changes(before, found)
      if (changed > 0) announce(changed === 1 ? "1 task changed" : `${changed} tasks changed`)
      return found
    },
    intervalOf,
    [status, page, filter]
  )
  const used = active.state.value.data?.meta.total
  return (
    <Screen
      title="Tasks"
      actions={used === undefined
        ? undefined
        : <span class="slots">{used} of {config.value.limits.max_active_tasks} slots in use</span>}
    >
      <div class="filters" role="search">
        <LinkFilter name="status" label="Status" options={statuses.map((each) => [each, wordOf(each)] as const)} />
        <div class="filter-fields">
          <TextFilter name="q" label="Text, label or id" isFirst />
          <AssistantFilter />
          <Select
            name="created"
            label="Created"
            options={[["", "Any time"], ...ranges.map(([name, label]) => [name, label] as const)]}
          />
          {isFiltered() ? <a class="button" href={href(`/tasks${queryOf({ status })}`)}>Clear filters</a> : null}
        </div>
      </div>
      <ChosenLabel />
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => <List key={`${status} ${page} ${filter}`} page={found} status={status} refresh={refresh} />}
      </Loaded>
    </Screen>
  )
}
