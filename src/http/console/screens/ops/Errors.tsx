/** The newest failures by their error. */
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { Age, shortId } from "../../components/Basics.tsx"
import {
  Cell,
  chosenRange,
  Columns,
  leaveRows,
  rangeParameters,
  RangeSelect,
  useStill
} from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { useKeys } from "../../keys.ts"
import { get, intervals, queryOf } from "../../operator.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"

type Errors = typeof Views.ErrorsView.Type

const Group = ({ group }: { readonly group: Errors["groups"][number] }) => {
  const list = href(`/ops/tasks${queryOf({ status: "failed", error: group.error, range: chosenRange() })}`)
  return (
    <tr>
      <th scope="row" class="cell-error">
        <a href={list} data-row="">
          <bdi>{group.error === "" ? "(no text)" : group.error}</bdi>
        </a>
      </th>
      <Cell label="Failures">{group.count}</Cell>
      <Cell label="First" class="cell-age">
        <Age at={group.first_at} />
      </Cell>
      <Cell label="Last" class="cell-age">
        <Age at={group.last_at} />
      </Cell>
      <Cell label="Samples">
        {group.samples.map((uuid) => (
          <a key={uuid} class="sample" href={href(`/ops/tasks/${uuid}`)} title={uuid}>
            <code>{shortId(uuid)}</code>
          </a>
        ))}
      </Cell>
    </tr>
  )
}

export const OpsErrors = () => {
  const range = chosenRange()
  const { refresh, state } = usePoll<Errors>(
    (signal) => get(`/errors${queryOf(rangeParameters())}`, signal),
    () => intervals.list,
    [range]
  )
  useKeys({
    r: () => {
      leaveRows()
      refresh()
    }
  })
  return (
    <Screen title="Errors">
      <div class="filters">
        <RangeSelect />
      </div>
      <Loaded polled={useStill(state.value)} refresh={refresh}>
        {({ groups, window }) =>
          groups.length === 0
            ? <Empty title="No task failed in this range" />
            : (
              <div>
                <p class="lead-in">
                  {window.complete
                    ? window.failures === 1 ? "1 failure" : `${window.failures} failures`
                    : `The newest ${window.failures.toLocaleString("en")} failures; there are more in this range`}
                </p>
                <table class="rows">
                  <caption class="visually-hidden">Errors, most failures first</caption>
                  <Columns names={["Error", "Failures", "First", "Last", "Samples"]} />
                  <tbody>{groups.map((group) => <Group key={group.error} group={group} />)}</tbody>
                </table>
              </div>
            )}
      </Loaded>
    </Screen>
  )
}
