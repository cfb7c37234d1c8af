/** The next deadlines of live tasks, and stops that the core has not confirmed. */
import type * as Views from "../../../contract/OperatorSchemas.ts"
import { duration } from "../../clock.ts"
import { Age, shortId, Status } from "../../components/Basics.tsx"
import { Cell, Columns, leaveRows, Text, useStill } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { useKeys } from "../../keys.ts"
import { get, intervals } from "../../operator.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"

type Clocks = typeof Views.ClocksView.Type

const TaskLink = ({ uuid }: { readonly uuid: string }) => (
  <th scope="row" class="cell-id">
    <a href={href(`/ops/tasks/${uuid}`)} data-row="" title={uuid}>
      <code>{shortId(uuid)}</code>
    </a>
  </th>
)

const Late = ({ ms }: { readonly ms: number }) => (
  <Cell label="Late">{ms === 0 ? "–" : <strong class="late">{duration(ms)}</strong>}</Cell>
)

export const OpsClocks = () => {
  const { refresh, state } = usePoll<Clocks>((signal) => get("/clocks", signal), () => intervals.list, [])
  useKeys({
    r: () => {
      leaveRows()
      refresh()
    }
  })
  return (
    <Screen title="Clocks">
      <Loaded polled={useStill(state.value)} refresh={refresh}>
        {({ stops, tasks }) => (
          <>
            <section class="section" aria-label="Deadlines">
              <h2>Next deadlines</h2>
              {tasks.length === 0 ? <Empty title="No live tasks" /> : (
                <table class="rows">
                  <caption class="visually-hidden">Deadlines, earliest first</caption>
                  <Columns names={["Status", "Task", "User", "Clock", "Due", "Late"]} />
                  <tbody>
                    {tasks.map(({ clock, due_at: due, late_ms: late, status, sub, uuid }) => (
                      <tr key={`${uuid} ${clock}`}>
                        <td class="cell-status">
                          <Status status={status} />
                        </td>
                        <TaskLink uuid={uuid} />
                        <Cell label="User" class="cell-user">
                          <Text>{sub}</Text>
                        </Cell>
                        <Cell label="Clock">{clock === "acceptance" ? "acceptance" : "time limit"}</Cell>
                        <Cell label="Due" class="cell-age">
                          <Age at={due} />
                        </Cell>
                        <Late ms={late} />
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
            </section>
            <section class="section" aria-label="Stops">
              <h2>Stops that the core has not confirmed</h2>
              {stops.length === 0 ? <p class="hint">None</p> : (
                <table class="rows">
                  <caption class="visually-hidden">Pending stops, earliest first</caption>
                  <Columns names={["Task", "Reason", "Attempts", "Due", "Late"]} />
                  <tbody>
                    {stops.map(({ attempts, due_at: due, late_ms: late, reason, run_id: run, task_uuid: uuid }) => (
                      <tr key={run}>
                        <TaskLink uuid={uuid} />
                        <Cell label="Reason">{reason.replaceAll("_", " ")}</Cell>
                        <Cell label="Attempts">{attempts}</Cell>
                        <Cell label="Due" class="cell-age">
                          <Age at={due} />
                        </Cell>
                        <Late ms={late} />
                      </tr>
                    ))}
                  </tbody>
                </table>
              )}
            </section>
          </>
        )}
      </Loaded>
    </Screen>
  )
}
