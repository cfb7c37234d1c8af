/** The next deadlines of live tasks, and stops that the core has not confirmed. */
import { duration } from "../../clock.ts"
import { Status } from "../../components/Basics.tsx"
import { useRows } from "../../components/Operators.tsx"
import { Empty, Loaded, Screen } from "../../components/Screen.tsx"
import { AgeCell, Cell, Rows, TaskCell, Text } from "../../components/Table.tsx"
import type * as Views from "../../operatorTypes.ts"

const Late = ({ ms }: { readonly ms: number }) => (
  <Cell label="Late">{ms === 0 ? "–" : <strong class="late">{duration(ms)}</strong>}</Cell>
)

export const OpsClocks = () => {
  const { polled, refresh } = useRows<Views.Clocks>(() => "/clocks")
  return (
    <Screen title="Clocks">
      <Loaded polled={polled} refresh={refresh}>
        {({ stops, tasks }) => (
          <>
            <section class="section" aria-label="Deadlines">
              <h2>Next deadlines</h2>
              {tasks.length === 0 ?
                <Empty title="No live tasks" /> :
                (
                  <Rows
                    caption="Deadlines, earliest first"
                    columns={["Status", "Task", "User", "Clock", "Due", "Late"]}
                  >
                    {tasks.map(({ clock, due_at: due, late_ms: late, status, sub, uuid }) => (
                      <tr key={`${uuid} ${clock}`}>
                        <td class="cell-status">
                          <Status status={status} />
                        </td>
                        <TaskCell below="/ops/tasks" uuid={uuid} />
                        <Cell label="User" class="cell-user">
                          <Text>{sub}</Text>
                        </Cell>
                        <Cell label="Clock">{clock === "acceptance" ? "acceptance" : "time limit"}</Cell>
                        <AgeCell label="Due" at={due} />
                        <Late ms={late} />
                      </tr>
                    ))}
                  </Rows>
                )}
            </section>
            <section class="section" aria-label="Stops">
              <h2>Stops that the core has not confirmed</h2>
              {stops.length === 0 ?
                <p class="hint">None</p> :
                (
                  <Rows caption="Pending stops, earliest first" columns={["Task", "Reason", "Attempts", "Due", "Late"]}>
                    {stops.map(({ attempts, due_at: due, late_ms: late, reason, run_id: run, task_uuid: uuid }) => (
                      <tr key={run}>
                        <TaskCell below="/ops/tasks" uuid={uuid} />
                        <Cell label="Reason">{reason.replaceAll("_", " ")}</Cell>
                        <Cell label="Attempts">{attempts}</Cell>
                        <AgeCell label="Due" at={due} />
                        <Late ms={late} />
                      </tr>
                    ))}
                  </Rows>
                )}
            </section>
          </>
        )}
      </Loaded>
    </Screen>
  )
}
