/** The tasks of all users, by a part of what identifies them, status and time. A uuid leads straight to its task. */
import { Age, IconButton, Status } from "../../components/Basics.tsx"
import { type BulkAction, BulkButton } from "../../components/Bulk.tsx"
import { change, Select, TextFilter } from "../../components/Filters.tsx"
import { chosen, ClearFilters, PagedRows, RangeSelect, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, TaskCell, Text, UserCell } from "../../components/Table.tsx"
import { mayChange } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { href, navigate, query, queryOf } from "../../Router.ts"

type Task = Views.Task
type Page = Views.Tasks

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const open = (text: string) => {
  if (!isUuid(text)) return false
  navigate(`/ops/tasks/${text.toLowerCase()}`)
  return true
}

const detailOf = ({ error, pending_tools: tools }: Task) =>
  tools.length > 0 ? `Waits for ${tools.slice(0, 3).join(", ")}${tools.length > 3 ? ", …" : ""}` : error ?? ""

/** The acceptance deadline no longer applies once the core has accepted. */
const nextDeadline = ({ acceptance_deadline_at: acceptance, completed_at: end, deadline_at: limit, status }: Task) =>
  end !== null ? null : status === "pending" && acceptance !== null && acceptance < limit ? acceptance : limit

export const assistantOf = ({ assistant_id: id, assistant_name: name }: Task): string =>
  name ?? (id === null ? "–" : `Assistant ${id}`)

const Row = ({ task }: { readonly task: Task }) => {
  const deadline = nextDeadline(task)
  return (
    <tr>
      <td class="cell-status">
        <Status status={task.status} />
      </td>
      <TaskCell below="/ops/tasks" uuid={task.uuid} />
      <UserCell sub={task.sub} />
      <Cell label="Assistant" class="cell-assistant">
        <bdi>{assistantOf(task)}</bdi>
      </Cell>
      <td class="cell-detail">
        <bdi>{detailOf(task).slice(0, 300)}</bdi>
        {deadline === null ? null : (
          <span>
            due <Age at={deadline} />
          </span>
        )}
      </td>
      <AgeCell label="Created" at={task.created_at} />
    </tr>
  )
}

/** What fits tasks of a status. */
const actionsFor = (status: string | null): ReadonlyArray<BulkAction> =>
  status === null
    ? ["cancel", "rerun", "delete"]
    : ["completed", "failed", "canceled"].includes(status)
    ? ["rerun", "delete"]
    : ["cancel"]

/** A filter that a link has set. */
const Chosen = ({ label, name }: { readonly name: string; readonly label: string }) => {
  const value = query.value.get(name)
  return value === null ? null : (
    <p class="chosen">
      {label}: <Text>{value}</Text>
      <IconButton icon="close" label={`Remove the filter ${label}`} onClick={() => change(name, "")} />
    </p>
  )
}

const filters = ["q", "sub", "status", "assistant", "label", "schedule", "error", "fingerprint"] as const

/** As a bulk action has it, where the assistant is a number. Another text is sent as it is, and refused. */
const bulkFilter = ({ assistant = null, ...filter }: Readonly<Record<string, string | null>>) => ({
  ...filter,
  assistant: assistant !== null && /^\d{1,15}$/.test(assistant) ? Number(assistant) : assistant
})

export const Tasks = () => {
  const isFiltered = query.value.size > 0
  const { polled, refresh } = useRows<Page>(() => `/tasks${queryOf(chosen(...filters, "cursor"))}`)
  return (
    <Screen
      title="Tasks of all users"
      actions={mayChange()
        ? (
          <BulkButton
            label="Change all that match…"
            actions={actionsFor(query.value.get("status"))}
            filter={() => bulkFilter(chosen(...filters))}
          />
        )
        : undefined}
    >
      <div class="filters" role="search">
        <TextFilter name="q" label="Id, user, label or error" isFirst onEnter={open} />
        <TextFilter name="assistant" label="Assistant" />
        <TextFilter name="label" label="Label, as key=value" />
        <Select
          name="status"
          label="Status"
          options={[
            ["", "All"],
            ["pending", "Pending"],
            ["processing", "Processing"],
            ["interrupted", "Interrupted"],
            ["completed", "Completed"],
            ["failed", "Failed"],
            ["canceled", "Canceled"]
          ]}
        />
        <RangeSelect />
        <ClearFilters />
      </div>
      <Chosen name="sub" label="User" />
      <Chosen name="schedule" label="Schedule" />
      <Chosen name="error" label="Error" />
      <Chosen name="fingerprint" label="Cause" />
      <Loaded polled={polled} refresh={refresh}>
        {(page) => (
          <PagedRows
            page={page}
            caption="Tasks of all users, newest first"
            columns={["Status", "Task", "User", "Assistant", "Detail", "Created"]}
            empty={
              <Empty title={isFiltered ? "No task matches" : "No tasks in the last 24 hours"}>
                <a class="button" href={href("/ops/tasks?range=month")}>Look at 31 days</a>
              </Empty>
            }
          >
            {(task) => <Row key={task.uuid} task={task} />}
          </PagedRows>
        )}
      </Loaded>
    </Screen>
  )
}
