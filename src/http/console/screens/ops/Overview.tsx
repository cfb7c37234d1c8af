/** What runs, what is late, what failed in the last hour or day, and the alerts that hold now. */
import { useSignal } from "@preact/signals"
import { useState } from "preact/hooks"
import { duration } from "../../clock.ts"
import { Age, Segments } from "../../components/Basics.tsx"
import { Icon } from "../../components/Icon.tsx"
import { useRead } from "../../components/Operators.tsx"
import { Plot, topOf } from "../../components/Plot.tsx"
import { Loaded, Screen } from "../../components/Screen.tsx"
import { DataTable } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { get, intervals, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { href } from "../../Router.ts"

type Overview = Views.Overview
type History = Views.History

/** Where an alert is explained. */
const alertScreens: Readonly<Record<string, string>> = {
  core_unreachable: "/ops/stuck",
  clocks_late: "/ops/clocks",
  not_accepted: "/ops/errors?range=hour",
  failures_many: "/ops/errors?range=hour",
  core_busy: "/ops/queue",
  queue_waits_long: "/ops/queue",
  runs_stuck: "/ops/stuck",
  webhooks_failing: "/ops/webhooks?state=failed",
  webhooks_late: "/ops/webhooks?state=pending",
  shards_unowned: "/ops/cluster",
  node_late: "/ops/cluster",
  user_stores_much: "/ops"
}

/** Nothing is calm while the service does not answer. */
const Alerts = ({ alerts, isCurrent }: Pick<Overview, "alerts"> & { readonly isCurrent: boolean }) =>
  alerts.length === 0
    ? !isCurrent ? null : (
      <p class="calm">
        <Icon name="completed" />
        Nothing needs attention
      </p>
    )
    : (
      <ul class="alerts" aria-label="Alerts">
        {alerts.map(({ id, message }) => (
          <li key={id} class="banner">
            <Icon name="warning" />
            <bdi>{message}</bdi>
            <a class="button" href={href(alertScreens[id] ?? "/ops")}>Look</a>
          </li>
        ))}
      </ul>
    )

const LargestUsers = ({ users }: { readonly users: Overview["largest_users"] }) =>
  users.length === 0 ? null : (
    <details class="more">
      <summary>Users who keep the most</summary>
      <DataTable
        region="Users who keep the most"
        caption="Users who keep the most, the largest first"
        columns={["User", "Bytes", "Tasks", "Counted"]}
        numbers={["Bytes", "Tasks"]}
      >
        {users.map(({ bytes, counted_at: at, sub, tasks }) => (
          <tr key={sub}>
            <th scope="row">
              <a href={href(`/ops/tasks${queryOf({ sub })}`)}>
                <bdi>{sub}</bdi>
              </a>
            </th>
            <td class="number">{bytes.toLocaleString("en")}</td>
            <td class="number">{tasks.toLocaleString("en")}</td>
            <td>
              <Age at={at} />
            </td>
          </tr>
        ))}
      </DataTable>
    </details>
  )

const Numbers = ({ overview }: { readonly overview: Overview }) => {
  const { deliveries, live, next_deadline: next, nodes, overdue_ms: overdue, queue, unowned } = overview
  const figures: ReadonlyArray<readonly [label: string, value: number | string, to: string]> = [
    ["Pending", live.pending, "/ops/tasks?status=pending"],
    ["Queued", queue.waiting, "/ops/queue"],
    ["Processing", live.processing, "/ops/tasks?status=processing"],
    ["Interrupted", live.interrupted, "/ops/tasks?status=interrupted"],
    ["Webhooks pending", deliveries.pending, "/ops/webhooks?state=pending"],
    ["Webhooks failed", deliveries.failed, "/ops/webhooks?state=failed&range=hour"],
    ["Nodes", unowned === 0 ? nodes : `${nodes}, ${unowned} shards unowned`, "/ops/cluster"]
  ]
  return (
    <>
      <ul class="figures">
        {figures.map(([label, value, to]) => (
          <li key={label} class="card">
            <a href={href(to)}>
              <span>{label}</span>
              <strong>{typeof value === "number" ? value.toLocaleString("en") : value}</strong>
            </a>
          </li>
        ))}
      </ul>
      <p class="hint">
        {next === null ? "No deadline is set." : overdue > 0
          ? `The earliest deadline passed ${duration(overdue)} ago.`
          : (
            <>
              Next deadline <Age at={next} />.
            </>
          )}
      </p>
    </>
  )
}

/** Plots of one unit have one scale. */
const plots: ReadonlyArray<readonly [name: string, label: string, unit: "tasks" | "webhooks" | "ms"]> = [
  ["created", "Created", "tasks"],
  ["completed", "Completed", "tasks"],
  ["failed", "Failed", "tasks"],
  ["canceled", "Canceled", "tasks"],
  ["acceptance_expired", "Not accepted in time", "tasks"],
  ["webhook_delivered", "Webhooks delivered", "webhooks"],
  ["webhook_failed", "Failed webhook attempts", "webhooks"],
  ["late_ms_max", "Maximum lateness, ms", "ms"]
]

const Plots = ({ history: { from, series, step }, starts }: {
  readonly history: History
  /** When the nodes started. */
  readonly starts: ReadonlyArray<string>
}) => {
  const cursor = useSignal<number | undefined>(undefined)
  const start = Date.parse(from)
  const marks = starts.map(Date.parse)
  const topOfUnit = (wanted: string) =>
    topOf(Math.max(...plots.flatMap(([name, , unit]) => unit === wanted ? series[name] ?? [] : []), 1))
  return (
    <>
      <ul class="plots">
        {plots.map(([name, label, unit]) => {
          const values = series[name] ?? []
          const total = unit === "ms" ? Math.max(0, ...values) : values.reduce((sum, value) => sum + value, 0)
          return (
            <li key={name} class={`card plot plot-${name}`}>
              <span>{label}</span>
              <strong>{total.toLocaleString("en")}</strong>
              <Plot name={label} from={start} top={topOfUnit(unit)} {...{ cursor, marks, step, values }} />
            </li>
          )
        })}
      </ul>
      <details class="more">
        <summary>The numbers as a table</summary>
        <DataTable
          region="Numbers of each period"
          caption="Numbers of each period, newest first"
          columns={["Period", ...plots.map(([, label]) => label)]}
        >
          {(series["created"] ?? []).map((_, index, all) => all.length - 1 - index).map((index) => (
            <tr key={index}>
              <th scope="row">
                <Age at={new Date(start + index * step * 1000).toISOString()} />
              </th>
              {plots.map(([name]) => <td key={name} class="number">{series[name]?.[index] ?? 0}</td>)}
            </tr>
          ))}
        </DataTable>
      </details>
    </>
  )
}

/** Hours and the step of their periods in seconds. */
const spans = { hour: [1, 60], day: [24, 3600] } as const

/** Milliseconds after which the counts of all nodes have been added. */
const delay = 15_000

/** Whole periods only: the present one would look like a drop. */
const periodsOf = (hours: number, step: number) => {
  const to = Math.floor((Date.now() - delay) / (step * 1000)) * step * 1000
  return { from: new Date(to - hours * 3_600_000).toISOString(), to: new Date(to).toISOString() }
}

export const Overview = () => {
  const [span, setSpan] = useState<keyof typeof spans>("hour")
  const [hours, step] = spans[span]
  const overview = useRead<Overview>(() => "/overview", intervals.overview)
  const history = usePoll<History>(
    (signal) => get(`/history${queryOf({ step, ...periodsOf(hours, step) })}`, signal),
    () => intervals.list,
    [hours]
  )
  const refresh = () => {
    overview.refresh()
    history.refresh()
  }
  useKeys({ r: refresh })
  return (
    <Screen title="Overview">
      <Loaded polled={overview.state.value} refresh={refresh}>
        {(found) => (
          <>
            <Alerts alerts={found.alerts} isCurrent={overview.state.value.error === undefined} />
            <Numbers overview={found} />
            <LargestUsers users={found.largest_users} />
          </>
        )}
      </Loaded>
      <section class="history" aria-label="History">
        <Segments
          label="Time span"
          name="span"
          options={[["hour", "1 h"], ["day", "24 h"]]}
          value={span}
          onChoose={setSpan}
        />
        <Loaded polled={history.state.value} refresh={refresh}>
          {(found) => <Plots history={found} starts={overview.state.value.data?.node_starts ?? []} />}
        </Loaded>
        <p class="hint">
          A dashed line is the start of a node. Counts are approximate: after a fault of the database, ten seconds may
          count twice.
        </p>
      </section>
    </Screen>
  )
}
