/** The newest failures by their cause, each with its course, and what can be done about all of them. */
import { useAction } from "../../actions.ts"
import { Moment, shortId } from "../../components/Basics.tsx"
import { BulkButton } from "../../components/Bulk.tsx"
import { Icon } from "../../components/Icon.tsx"
import { chosen, chosenRange, RangeSelect, useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Problem, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows } from "../../components/Table.tsx"
import { intervals, mayChange, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"
import * as silenced from "../../silenced.ts"

type Errors = Views.Errors

const counted = (count: number, one: string, many: string) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`

/** Bars of equal parts of the range. */
const Course = ({ counts }: { readonly counts: ReadonlyArray<number> }) => {
  const most = Math.max(1, ...counts)
  const peak = counts.indexOf(Math.max(...counts))
  const words = `Most in part ${peak + 1} of ${counts.length} of the range: ${counts[peak]}`
  return (
    <svg class="course" viewBox={`0 0 ${counts.length * 4} 24`} role="img" aria-label={words}>
      <title>{words}</title>
      {counts.map((count, index) => (
        <rect
          key={index}
          x={index * 4}
          width={3}
          y={24 - Math.max(count === 0 ? 0.5 : 2, count / most * 24)}
          height={24}
        />
      ))}
    </svg>
  )
}

const Group = ({ group, onSilence }: {
  readonly group: Errors["groups"][number]
  readonly onSilence: (fingerprint: string, isSilent: boolean) => void
}) => {
  const { fingerprint } = group
  const silence = silenced.find("cause", fingerprint)
  const list = href(`/ops/tasks${queryOf({ status: "failed", fingerprint, range: chosenRange() })}`)
  return (
    <tr>
      <th scope="row" class="cell-cause">
        <div class="cause">
          <div>
            <a href={list} data-row="">
              <bdi>{fingerprint === "" ? "(no text)" : fingerprint}</bdi>
            </a>
            {fingerprint === group.error ? null : (
              <p class="detail">
                <bdi>{group.error}</bdi>
              </p>
            )}
            <p class="detail">
              {counted(group.users, "user", "users")}, {counted(group.assistants, "assistant", "assistants")}, such as
              {" "}
              {group.samples.map((uuid) => (
                <a key={uuid} class="sample" href={href(`/ops/tasks/${uuid}`)} title={uuid}>
                  <code>{shortId(uuid)}</code>
                </a>
              ))}
            </p>
          </div>
          {mayChange()
            ? (
              <p class="inline">
                <BulkButton
                  label="Run again or delete…"
                  actions={["rerun", "delete"]}
                  filter={() => ({ ...chosen(), fingerprint, status: "failed" })}
                />
                <button
                  type="button"
                  class="button quiet"
                  onClick={() => onSilence(fingerprint, silence === undefined)}
                >
                  {silence === undefined ? "Silence for a day" : "No longer silent"}
                </button>
              </p>
            )
            : null}
        </div>
        {silence === undefined ? null : (
          <p class="detail">
            Silent by <bdi>{silence.by}</bdi> until <Moment at={silence.until} />
          </p>
        )}
      </th>
      <td class="cell-course">
        <Course counts={group.counts} />
      </td>
      <Cell label="Failures" class="number">{group.count.toLocaleString("en")}</Cell>
      <AgeCell label="Since" at={group.first_at} />
      <AgeCell label="Last" at={group.last_at} />
    </tr>
  )
}

const columns = ["Cause", "Course", "Failures", "Since", "Last"]

const Causes = ({ groups }: Pick<Errors, "groups">) => {
  const { error, run } = useAction(silenced.set)
  const [quiet, loud] = [true, false].map((wanted) =>
    groups.filter(({ fingerprint }) => (silenced.find("cause", fingerprint) !== undefined) === wanted)
  )
  const table = (caption: string, some: Errors["groups"]) => (
    <Rows caption={caption} columns={columns} numbers={["Failures"]}>
      {some.map((group) => (
        <Group
          key={group.fingerprint}
          group={group}
          onSilence={(key, isSilent) => run("cause", key, isSilent)}
        />
      ))}
    </Rows>
  )
  return (
    <>
      <Problem error={error} />
      {loud === undefined || loud.length === 0
        ? (
          <p class="calm">
            <Icon name="completed" />All causes are silenced
          </p>
        )
        : table("Causes, most failures first", loud)}
      {quiet === undefined || quiet.length === 0 ? null : (
        <details class="more silenced">
          <summary>{counted(quiet.length, "silenced cause", "silenced causes")}</summary>
          {table("Silenced causes", quiet)}
        </details>
      )}
    </>
  )
}

export const OpsErrors = () => {
  const { polled, refresh } = useRows<Errors>(() => `/errors${queryOf(chosen())}`)
  usePoll(silenced.load, () => intervals.list, [])
  return (
    <Screen title="Errors">
      <div class="filters">
        <RangeSelect />
      </div>
      <Loaded polled={polled} refresh={refresh}>
        {({ groups, window }) =>
          groups.length === 0
            ? (
              <Empty title="No task failed in this range">
                <p>Failures are here by their cause: the text of the error without ids, numbers and times.</p>
                <a class="button" href={href("/ops/errors?range=month")}>Look at 31 days</a>
              </Empty>
            )
            : (
              <div>
                <p class="lead-in">
                  {window.complete
                    ? `${counted(window.failures, "failure", "failures")} of ${
                      counted(groups.length, "cause", "causes")
                    }`
                    : `The newest ${window.failures.toLocaleString("en")} failures; there are more in this range`}
                </p>
                <Causes groups={groups} />
              </div>
            )}
      </Loaded>
    </Screen>
  )
}
