/** The tasks of all users, by user, status, error and time. A uuid leads straight to its task. */
import { Status } from "../../components/Basics.tsx"
import { chosen, ClearFilters, OlderPages, RangeSelect, Select, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows, TaskCell, Text } from "../../components/Table.tsx"
import { TextFilter } from "../../components/TextFilter.tsx"
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

const Row = ({ task }: { readonly task: Task }) => (
  <tr>
    <td class="cell-status">
      <Status status={task.status} />
    </td>
    <TaskCell below="/ops/tasks" uuid={task.uuid} />
    <Cell label="User" class="cell-user">
      <a href={href(`/ops/tasks${queryOf({ sub: task.sub })}`)}>
        <Text>{task.sub}</Text>
      </a>
    </Cell>
    <td class="cell-detail">
      <bdi>{detailOf(task).slice(0, 300)}</bdi>
    </td>
    <AgeCell label="Created" at={task.created_at} />
    <AgeCell label="Next deadline" at={nextDeadline(task)} />
  </tr>
)

export const Tasks = () => {
  const isFiltered = query.value.size > 0
  const { polled, refresh } = useRows<Page>(() => `/tasks${queryOf(chosen("sub", "status", "error", "cursor"))}`)
  return (
    <Screen title="Tasks of all users">
      <div class="filters" role="search">
        <TextFilter name="sub" label="User or uuid" isFirst onEnter={open} />
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
        <TextFilter name="error" label="Error" />
        <RangeSelect />
        <ClearFilters />
      </div>
      <Loaded polled={polled} refresh={refresh}>
        {({ complete, data, next }) => (
          <div>
            {data.length === 0
              ? <Empty title={isFiltered ? "No task matches" : "No tasks in the last 24 hours"} />
              : (
                <Rows
                  caption="Tasks of all users, newest first"
                  columns={["Status", "Task", "User", "Detail", "Created", "Next deadline"]}
                >
                  {data.map((task) => <Row key={task.uuid} task={task} />)}
                </Rows>
              )}
            <OlderPages next={next} isComplete={complete} />
          </div>
        )}
      </Loaded>
    </Screen>
  )
}
