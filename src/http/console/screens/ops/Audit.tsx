/** The audit: actions of operators, and cancels and revocations by calls of other services. */
import { shortId } from "../../components/Basics.tsx"
import { Select, TextFilter } from "../../components/Filters.tsx"
import { ClearFilters, PagedRows, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Text, UserCell } from "../../components/Table.tsx"
import { queryOf } from "../../operator.ts"
import { auditActions } from "../../operatorTypes.ts"
import type * as Views from "../../operatorTypes.ts"
import { href, query } from "../../Router.ts"

type Line = Views.Audit["data"][number]

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
/** Actions whose target is a task. */
const ofTasks: ReadonlySet<string> = new Set(["cancel", "withdraw", "content", "rerun"])

const Target = ({ line }: { readonly line: Line }) => {
  const { action, bulk_id: bulk, target } = line
  if (target === null) return <span>–</span>
  if (target === bulk) return <a href={href(`/ops/bulk/${bulk}`)}>bulk action</a>
  if (!isUuid(target)) return <Text>{target}</Text>
  const id = <code title={target}>{shortId(target)}</code>
  return ofTasks.has(action) ? <a href={href(`/ops/tasks/${target}`)}>{id}</a> : id
}

export const OpsAudit = () => {
  const { value } = query
  const { polled, refresh } = useRows<Views.Audit>(() =>
    `/audit${
      queryOf(
        Object.fromEntries(["sub", "task", "operator", "action", "cursor"].map((name) => [name, value.get(name)]))
      )
    }`
  )
  return (
    <Screen title="Audit">
      <div class="filters" role="search">
        <TextFilter name="sub" label="User" isFirst />
        <TextFilter name="operator" label="Operator" />
        <TextFilter name="task" label="Task" />
        <Select
          name="action"
          label="Action"
          options={[["", "All"], ...auditActions.map((name) => [name, name.replaceAll("_", " ")] as const)]}
        />
        <ClearFilters />
      </div>
      <Loaded polled={polled} refresh={refresh}>
        {(page) => (
          <PagedRows
            page={page}
            caption="What was done, newest first"
            columns={["Action", "By", "Way", "Outcome", "Target", "User", "Reason", "When"]}
            empty={
              <Empty title={value.size === 0 ? "Nothing was done yet" : "Nothing matches"}>
                <p>
                  Each change by an operator has a line here, and so have reads of what tasks say, and cancels and
                  revocations by calls of other services: who, what, why, and how it ended.
                </p>
              </Empty>
            }
          >
            {(line) => (
              <tr key={line.id}>
                <th scope="row">{line.action.replaceAll("_", " ")}</th>
                <Cell label="By" class="cell-user">
                  <Text>{line.operator}</Text>
                </Cell>
                <Cell label="Way">{line.via}</Cell>
                <Cell label="Outcome">{line.outcome}</Cell>
                <Cell label="Target">
                  <Target line={line} />
                </Cell>
                <UserCell sub={line.sub ?? "–"} isLink={line.sub?.startsWith("hmac:") === false} />
                <td class="cell-detail">
                  <bdi>{line.reason ?? ""}</bdi>
                </td>
                <AgeCell label="When" at={line.at} />
              </tr>
            )}
          </PagedRows>
        )}
      </Loaded>
    </Screen>
  )
}
