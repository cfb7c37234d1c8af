/** The newest failures by their error. */
import { shortId } from "../../components/Basics.tsx"
import { chosen, chosenRange, RangeSelect, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows } from "../../components/Table.tsx"
import { queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { href } from "../../Router.ts"

type Errors = Views.Errors

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
      <AgeCell label="First" at={group.first_at} />
      <AgeCell label="Last" at={group.last_at} />
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
  const { polled, refresh } = useRows<Errors>(() => `/errors${queryOf(chosen())}`)
  return (
    <Screen title="Errors">
      <div class="filters">
        <RangeSelect />
      </div>
      <Loaded polled={polled} refresh={refresh}>
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
                <Rows
                  caption="Errors, most failures first"
                  columns={["Error", "Failures", "First", "Last", "Samples"]}
                >
                  {groups.map((group) => <Group key={group.error} group={group} />)}
                </Rows>
              </div>
            )}
      </Loaded>
    </Screen>
  )
}
