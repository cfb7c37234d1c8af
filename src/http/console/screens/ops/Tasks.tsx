/** The tasks of all users, by user, status, error and time. A uuid leads straight to its task. */
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { Age, shortId, Status } from "../../components/Basics.tsx"
import {
  Cell,
  ClearFilters,
  Columns,
  leaveRows,
  OlderPages,
  rangeParameters,
  RangeSelect,
  Select,
  Text,
  TextFilter,
  useStill
} from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { useKeys } from "../../keys.ts"
import { get, intervals, queryOf } from "../../operator.ts"
import { usePoll } from "../../poll.ts"
import { href, navigate, query } from "../../Router.ts"

type Task = typeof Views.OperatorTaskView.Type
type Page = typeof Views.OperatorTasksView.Type

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

const open = (text: string) => {
  if (!isUuid(text)) return false
  navigate(`/ops/tasks/${text.toLowerCase()}`)
  return true
}

const detailOf = ({ error, pending_tools: tools }: Task) =>
  tools.length > 0 ? `Waits for ${tools.slice(0, 3).join(", ")}${tools.length > 3 ? ", …" : ""}` : error ?? ""

/** The acceptance deadline no longer applies once the core has accepted. */
const nextDeadline = ({ acceptance_deadline_at: acceptance, deadline_at: limit, status }: Task) =>
  status === "pending" && acceptance !== null && acceptance < limit ? acceptance : limit

const isLive = ({ completed_at: end }: Task) => end === null

const Row = ({ task }: { readonly task: Task }) => (
  <tr>
    <td class="cell-status">
      <Status status={task.status} />
    </td>
    <th scope="row" class="cell-id">
      <a href={href(`/ops/tasks/${task.uuid}`)} data-row="" title={task.uuid}>
        <code>{shortId(task.uuid)}</code>
      </a>
    </th>
    <Cell label="User" class="cell-user">
      <a href={href(`/ops/tasks${queryOf({ sub: task.sub })}`)}>
        <Text>{task.sub}</Text>
      </a>
    </Cell>
    <td class="cell-detail">
      <bdi>{detailOf(task).slice(0, 300)}</bdi>
    </td>
    <Cell label="Created" class="cell-age">
      <Age at={task.created_at} />
    </Cell>
    <Cell label="Next deadline" class="cell-age">
      {isLive(task) ? <Age at={nextDeadline(task)} /> : "–"}
    </Cell>
  </tr>
)

export const Tasks = () => {
  const { value } = query
  const filter = value.toString()
  const { refresh, state } = usePoll<Page>(
    (signal) =>
      get(
        `/tasks${
          queryOf({
            ...rangeParameters(),
            sub: value.get("sub"),
            status: value.get("status"),
            error: value.get("error"),
            cursor: value.get("cursor")
          })
        }`,
        signal
      ),
    () => intervals.list,
    [filter]
  )
  useKeys({
    r: () => {
      leaveRows()
      refresh()
    }
  })
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
      <Loaded polled={useStill(state.value)} refresh={refresh}>
        {({ complete, data, next }) => (
          <div>
            {data.length === 0
              ? <Empty title={filter === "" ? "No tasks in the last 24 hours" : "No task matches"} />
              : (
                <table class="rows">
                  <caption class="visually-hidden">Tasks of all users, newest first</caption>
                  <Columns names={["Status", "Task", "User", "Detail", "Created", "Next deadline"]} />
                  <tbody>{data.map((task) => <Row key={task.uuid} task={task} />)}</tbody>
                </table>
              )}
            <OlderPages next={next} isComplete={complete} />
          </div>
        )}
      </Loaded>
    </Screen>
  )
}
