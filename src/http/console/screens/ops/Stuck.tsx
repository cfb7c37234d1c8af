/** What does not move: tasks whose core has reported nothing, deadlines that have passed, and stops that are not confirmed. */
import { useState } from "preact/hooks"
import { duration } from "../../clock.ts"
import { Age, Status } from "../../components/Basics.tsx"
import { BulkButton } from "../../components/Bulk.tsx"
import { Icon } from "../../components/Icon.tsx"
import { ActionCell, useRead, useRows, withAction } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows, TaskCell, UserCell } from "../../components/Table.tsx"
import { mayChange } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { Cancel } from "./Task.tsx"

type Run = Views.Stuck["data"][number]

/** Why a task does not move, and what helps. */
const adviceOf = ({ status, waiting_on: waiting }: Run): readonly [why: string, help: string] => {
  if (status === "pending") {
    return [
      "The core has sent no event of it",
      "Check the core: only an event accepts a run, not the answer to the call. It fails by itself in time."
    ]
  }
  if (waiting != null && waiting.silent_since !== null) {
    return [
      "The core is silent, and gets it again",
      "It is dispatched again by itself, the row says how often. If the core is well, cancel it."
    ]
  }
  return [
    "The core has reported nothing",
    "The core may have lost it: look there, or cancel it, so that its user can run it again."
  ]
}

const Row = ({ onCancel, run }: { readonly run: Run; readonly onCancel: () => void }) => (
  <tr>
    <td class="cell-status">
      <Status status={run.status} />
    </td>
    <TaskCell below="/ops/tasks" uuid={run.uuid} />
    <Cell label="No progress for">
      <strong class="late">{duration(run.idle_ms)}</strong>
      {run.waiting_on?.hand_overs ? `, got it ${run.waiting_on.hand_overs}×` : ""}
    </Cell>
    <UserCell sub={run.sub} />
    <Cell label="Fails">{run.waiting_on === null ? "–" : <Age at={run.waiting_on.until} />}</Cell>
    <ActionCell>
      <button type="button" class="button danger" onClick={onCancel}>Cancel…</button>
    </ActionCell>
  </tr>
)

const columns = ["Status", "Task", "No progress for", "User", "Fails"]

/** Runs that do not move for one reason, and what helps all of them. */
const Group = ({ onCancel, runs }: {
  readonly runs: ReadonlyArray<Run>
  readonly onCancel: (run: Run) => void
}) => {
  const [why, help] = adviceOf(runs[0]!)
  return (
    <section class="section" aria-label={why}>
      <h2>{why}: {runs.length}</h2>
      <p class="detail">{help}</p>
      {mayChange() && runs.length > 1
        ? (
          <p>
            <BulkButton
              label={`Cancel these ${runs.length}…`}
              actions={["cancel"]}
              filter={() => ({ ids: runs.map(({ uuid }) => uuid) })}
            />
          </p>
        )
        : null}
      <Rows
        caption={`${why}, without progress for longest first`}
        columns={withAction(columns)}
      >
        {runs.map((run) => <Row key={run.uuid} run={run} onCancel={() => onCancel(run)} />)}
      </Rows>
    </section>
  )
}

/** Milliseconds: a deadline of a moment ago is on its way. */
const late = 5000

const Late = () => {
  const { data } = useRead<Views.Clocks>(() => "/clocks").state.value
  const tasks = data?.tasks.filter(({ late_ms: ms }) => ms > late) ?? []
  const stops = data?.stops ?? []
  return (
    <>
      {tasks.length === 0 ? null : (
        <section class="section" aria-label="Deadlines that have passed">
          <h2>Deadlines that have passed</h2>
          <Rows caption="Deadlines, latest first" columns={["Status", "Task", "User", "Deadline", "Due", "Late"]}>
            {tasks.map(({ clock, due_at: due, late_ms: ms, status, sub, uuid }) => (
              <tr key={`${uuid} ${clock}`}>
                <td class="cell-status">
                  <Status status={status} />
                </td>
                <TaskCell below="/ops/tasks" uuid={uuid} />
                <UserCell sub={sub} />
                <Cell label="Deadline">{clock === "acceptance" ? "acceptance" : "time limit"}</Cell>
                <AgeCell label="Due" at={due} />
                <Cell label="Late">
                  <strong class="late">{duration(ms)}</strong>
                </Cell>
              </tr>
            ))}
          </Rows>
        </section>
      )}
      {stops.length === 0 ? null : (
        <section class="section" aria-label="Stops">
          <h2>Stops that the core has not confirmed</h2>
          <Rows caption="Pending stops, earliest first" columns={["Task", "Reason", "Attempts", "Due", "Late"]}>
            {stops.map(({ attempts, due_at: due, late_ms: ms, reason, run_id: run, task_uuid: uuid }) => (
              <tr key={run}>
                <TaskCell below="/ops/tasks" uuid={uuid} />
                <Cell label="Reason">{reason.replaceAll("_", " ")}</Cell>
                <Cell label="Attempts">{attempts}</Cell>
                <AgeCell label="Due" at={due} />
                <Cell label="Late">{ms === 0 ? "–" : <strong class="late">{duration(ms)}</strong>}</Cell>
              </tr>
            ))}
          </Rows>
        </section>
      )}
    </>
  )
}

export const OpsStuck = () => {
  const { polled, refresh } = useRows<Views.Stuck>(() => "/stuck")
  const [canceling, setCanceling] = useState<Run>()
  return (
    <Screen title="Stuck">
      <p class="lead">Runs without a sign of life for STUCK_AFTER, or since the core is gone, the longest first.</p>
      <Loaded polled={polled} refresh={refresh}>
        {({ before, complete, core_unreachable: unreachable, data, total }) => (
          <>
            {unreachable === null ? null : (
              <p class="banner" role="status">
                <Icon name="warning" />
                <span>
                  The core was lost <Age at={unreachable.since} />: <bdi>{unreachable.reason}</bdi>
                </span>
              </p>
            )}
            {data.length === 0
              ? (
                <Empty title="Nothing is stuck">
                  The core has reported of every run since <Age at={before} />.
                </Empty>
              )
              : (
                <div>
                  <p class="lead-in">
                    {total === 1 ? "1 task" : `${total.toLocaleString("en")} tasks`}
                    {data.length < total ? `, the first ${data.length} of them` : ""}
                    {complete ? "" : "; only the oldest 20,000 live tasks were examined"}
                  </p>
                  {[...Map.groupBy(data, (run) => adviceOf(run)[0])].map(([why, runs]) => (
                    <Group key={why} runs={runs} onCancel={setCanceling} />
                  ))}
                </div>
              )}
          </>
        )}
      </Loaded>
      <Late />
      {canceling === undefined
        ? null
        : <Cancel task={canceling} onDone={refresh} onClose={() => setCanceling(undefined)} />}
    </Screen>
  )
}
