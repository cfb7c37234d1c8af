/** The newest failures by their cause. */
import { shortId } from "../../components/Basics.tsx"
import { BulkButton } from "../../components/Bulk.tsx"
import { chosen, chosenRange, RangeSelect, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows } from "../../components/Table.tsx"
import { mayChange, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { href } from "../../Router.ts"

type Errors = Views.Errors

const counted = (count: number, one: string, many: string) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`

const Group = ({ group }: { readonly group: Errors["groups"][number] }) => {
  const { fingerprint } = group
  const list = href(`/ops/tasks${queryOf({ status: "failed", fingerprint, range: chosenRange() })}`)
  return (
    <tr>
      <th scope="row" class="cell-cause">
        <a href={list} data-row="">
          <bdi>{fingerprint === "" ? "(no text)" : fingerprint}</bdi>
        </a>
        {fingerprint === group.error ? null : <p class="detail" dir="auto">{group.error}</p>}
        <p class="detail">
          {counted(group.users, "user", "users")}, {counted(group.assistants, "assistant", "assistants")}, such as{" "}
          {group.samples.map((uuid) => (
            <a key={uuid} class="sample" href={href(`/ops/tasks/${uuid}`)} title={uuid}>
              <code>{shortId(uuid)}</code>
            </a>
          ))}
        </p>
        {mayChange()
          ? (
            <BulkButton
              label="Run again or delete…"
              actions={["rerun", "delete"]}
              filter={() => ({ ...chosen(), fingerprint, status: "failed" })}
            />
          )
          : null}
      </th>
      <Cell label="Failures" class="number">{group.count.toLocaleString("en")}</Cell>
      <AgeCell label="First" at={group.first_at} />
      <AgeCell label="Last" at={group.last_at} />
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
                    ? `${counted(window.failures, "failure", "failures")} of ${
                      counted(groups.length, "cause", "causes")
                    }`
                    : `The newest ${window.failures.toLocaleString("en")} failures; there are more in this range`}
                </p>
                <Rows
                  caption="Causes, most failures first"
                  columns={["Cause", "Failures", "First", "Last"]}
                  numbers={["Failures"]}
                >
                  {groups.map((group) => <Group key={group.fingerprint} group={group} />)}
                </Rows>
              </div>
            )}
      </Loaded>
    </Screen>
  )
}
