/** What runs, what is late, what failed in the last hour or day, and the alerts that hold now or held in the last day. */
import { useSignal } from "@preact/signals"
import { useState } from "preact/hooks"
import { useAction } from "../../actions.ts"
import { clockTime, duration, moment } from "../../clock.ts"
import { Age, IconButton, Segments } from "../../components/Basics.tsx"
import { Icon } from "../../components/Icon.tsx"
import { useRead } from "../../components/Operators.tsx"
import { Plot, topOf } from "../../components/Plot.tsx"
import { Loaded, Problem, Screen } from "../../components/Screen.tsx"
import { DataTable, Figures } from "../../components/Table.tsx"
import { useKeys } from "../../keys.ts"
import { get, intervals, mayChange, queryOf } from "../../operator.ts"
import type * as Views from "../../operatorTypes.ts"
import { usePoll } from "../../poll.ts"
import { zone } from "../../preferences.ts"
import { href } from "../../Router.ts"
import * as silenced from "../../silenced.ts"

type Overview = Views.Overview
type History = Views.History

/** Where an alert is explained. */
const alertScreens: Readonly<Record<string, string>> = {
  core_unreachable: "/ops/stuck",
  clocks_late: "/ops/stuck",
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
      <Figures figures={figures} />
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

/** Each leads to what it counts. Those of one scale can be compared; few failures would be flat beside many tasks. */
const plots: ReadonlyArray<readonly [name: string, label: string, scale: string, to: string]> = [
  ["created", "Created", "tasks", "/ops/tasks?"],
  ["completed", "Completed", "tasks", "/ops/tasks?status=completed&"],
  ["failed", "Failed", "failures", "/ops/errors?"],
  ["canceled", "Canceled", "cancels", "/ops/tasks?status=canceled&"],
  ["acceptance_expired", "Not accepted in time", "failures", "/ops/errors?"],
  ["webhook_delivered", "Webhooks delivered", "webhooks", "/ops/webhooks?state=delivered&"],
  ["webhook_failed", "Failed webhook attempts", "attempts", "/ops/webhooks?state=failed&"],
  ["late_ms_max", "Maximum lateness, ms", "ms", "/ops/stuck?"]
]

/** Shown also while nothing happens. */
const always = 3

const Plots = ({ history: { from, series, step }, span, starts }: {
  readonly history: History
  readonly span: Span
  /** When the nodes started. */
  readonly starts: ReadonlyArray<string>
}) => {
  const cursor = useSignal<number | undefined>(undefined)
  const start = Date.parse(from)
  const marks = starts.map(Date.parse)
  const isFlat = (name: string) => (series[name] ?? []).every((value) => value === 0)
  const shown = plots.filter(([name], index) => index < always || !isFlat(name))
  const flat = plots.filter((plot) => !shown.includes(plot)).map(([, label]) => label.toLowerCase())
  const topOfScale = (wanted: string) =>
    topOf(Math.max(...shown.flatMap(([name, , scale]) => scale === wanted ? series[name] ?? [] : []), 1))
  return (
    <>
      <ul class="plots">
        {shown.map(([name, label, scale, to]) => {
          const values = series[name] ?? []
          const total = scale === "ms" ? Math.max(0, ...values) : values.reduce((sum, value) => sum + value, 0)
          return (
            <li key={name} class={`card plot plot-${name}`}>
              <a href={href(`${to}range=${span}`)}>{label}</a>
              <strong>{total.toLocaleString("en")}</strong>
              <Plot name={label} from={start} top={topOfScale(scale)} {...{ cursor, marks, step, values }} />
            </li>
          )
        })}
      </ul>
      {flat.length === 0 ? null : <p class="hint">Nothing in this time: {flat.join(", ")}.</p>}
      <details class="more">
        <summary>The numbers as a table</summary>
        <DataTable
          region="Numbers of each period"
          caption="Numbers of each period, newest first"
          columns={["Period", ...shown.map(([, label]) => label)]}
        >
          {(series["created"] ?? []).map((_, index, all) => all.length - 1 - index).map((index) => (
            <tr key={index}>
              <th scope="row">
                <Age at={new Date(start + index * step * 1000).toISOString()} />
              </th>
              {shown.map(([name]) => <td key={name} class="number">{series[name]?.[index] ?? 0}</td>)}
            </tr>
          ))}
        </DataTable>
      </details>
    </>
  )
}

const timeColumns = ["Tasks", "Waiting p50", "Waiting p95", "Running p50", "Running p95"]

/** How long tasks wait and run. */
const Times = ({ durations: { complete, data } }: { readonly durations: Views.Durations }) =>
  data.length === 0 ? null : (
    <section class="section" aria-label="Times by assistant">
      <h2>Times by assistant</h2>
      <DataTable
        region="Times by assistant"
        caption="Times by assistant, most tasks first"
        columns={["Assistant", ...timeColumns]}
        numbers={timeColumns}
      >
        {data.slice(0, 20).map(({ assistant_id: id, name, running_ms: running, tasks, waiting_ms: waiting }) => (
          <tr key={id}>
            <th scope="row">
              <bdi>{name ?? (id === null ? "Early versions" : `Assistant ${id}`)}</bdi>
            </th>
            <td class="number">{tasks.toLocaleString("en")}</td>
            {[waiting.p50, waiting.p95, running.p50, running.p95].map((time, index) => (
              <td key={index} class="number">{duration(time)}</td>
            ))}
          </tr>
        ))}
      </DataTable>
      {complete ? null : <p class="hint">Of the newest 5,000 tasks of this time.</p>}
    </section>
  )

/** Hours, and the step of their periods in seconds. */
const spans = { hour: [1, 60], day: [24, 300] } as const
type Span = keyof typeof spans

/** To the present minute: the last period is not over. */
const periodsOf = (hours: number, step: number) => {
  const to = Math.ceil(Date.now() / (step * 1000)) * step * 1000
  return { from: new Date(to - hours * 3_600_000).toISOString(), to: new Date(to).toISOString() }
}

interface Past {
  readonly id: string
  readonly message: string
  readonly from: number
  readonly to: number
}

/** What made an alert in a period of ten minutes. */
const pastRules: ReadonlyArray<
  readonly [id: string, isHeld: (at: (name: string) => number) => boolean, word: string, counted: string]
> = [
  [
    "failures_many",
    (at) => at("failed") >= 3 && at("failed") >= 0.2 * (at("failed") + at("completed")),
    "tasks failed",
    "failed"
  ],
  ["not_accepted", (at) => at("acceptance_expired") > 0, "tasks were not accepted in time", "acceptance_expired"],
  ["webhooks_failing", (at) => at("webhook_failed") > 0, "attempts of webhooks failed", "webhook_failed"],
  ["clocks_late", (at) => at("late_ms_max") > 15_000, "ms late was the latest deadline", "late_ms_max"]
]

/** Periods of 5 min that are looked at together, and those without a fault that do not end an alert. */
const together = 2
const pauses = 6

/** The alerts of a day that no longer hold, from its counts: each with its begin and its end, the newest first. */
const pastOf = ({ from, series, step }: History, current: Overview["alerts"]): ReadonlyArray<Past> => {
  const [start, width] = [Date.parse(from), step * 1000 * together]
  const add = (id: string) => (a: number, b: number) => id === "clocks_late" ? Math.max(a, b) : a + b
  return pastRules.flatMap(([id, isHeld, word, counted]) => {
    const found: Array<Past & { readonly count: number }> = []
    for (let period = 0; period < (series["created"]?.length ?? 0) / together; period++) {
      const at = (name: string) =>
        series[name]?.slice(period * together, (period + 1) * together).reduce(add(id), 0) ?? 0
      if (!isHeld(at)) continue
      const begin = start + period * width
      const last = found.at(-1)
      const joined = last !== undefined && begin - last.to <= pauses * width ? found.pop() : undefined
      const count = add(id)(at(counted), joined?.count ?? 0)
      const message = `${count.toLocaleString("en")} ${word}`
      found.push({ id, count, message, from: joined?.from ?? begin, to: Math.min(begin + width, Date.now()) })
    }
    return current.some((alert) => alert.id === id) ? found.slice(0, -1) : found
  }).toSorted((a, b) => b.to - a.to)
}

/** The same alert has the same name with each reading, whatever has left the day meanwhile. */
const keyOf = ({ id, to }: Past) => `${id} ${Math.round(to / 600_000)}`

/** The day only where it is needed. */
const spanOf = ({ from, to }: Past) => {
  const [begin, end] = [moment(from, zone.value), moment(to, zone.value)]
  const isOneDay = begin.slice(0, 10) === end.slice(0, 10)
  return `${begin.slice(0, 16)} to ${isOneDay ? clockTime(to, zone.value).slice(0, 5) : end.slice(0, 16)}`
}

const PastAlerts = ({ alerts, history }: Pick<Overview, "alerts"> & { readonly history: History }) => {
  const { error, run } = useAction(silenced.set)
  const past = pastOf(history, alerts).filter((alert) => silenced.find("alert", keyOf(alert)) === undefined)
  return past.length === 0 ? null : (
    <section class="section" aria-label="Alerts of the last day">
      <h2>In the last day</h2>
      <Problem error={error} />
      <ul class="alerts past">
        {past.slice(0, 10).map((alert) => (
          <li key={keyOf(alert)}>
            <Icon name="warning" />
            <span>
              {alert.message} <span class="detail">{spanOf(alert)}</span>
            </span>
            <a class="button" href={href((alertScreens[alert.id] ?? "/ops").replace("range=hour", "range=day"))}>
              Look
            </a>
            {mayChange()
              ? (
                <IconButton
                  icon="close"
                  label="Seen"
                  title="Seen, for all operators"
                  onClick={() => run("alert", keyOf(alert), true)}
                />
              )
              : null}
          </li>
        ))}
      </ul>
    </section>
  )
}

export const Overview = () => {
  const [span, setSpan] = useState<Span>("hour")
  const [hours, step] = spans[span]
  const overview = useRead<Overview>(() => "/overview", intervals.overview)
  const history = usePoll<History>(
    (signal) => get(`/history${queryOf({ step, ...periodsOf(hours, step) })}`, signal),
    () => intervals.list,
    [hours]
  )
  const times = usePoll<Views.Durations>(
    (signal) => get(`/durations${queryOf({ from: new Date(Date.now() - hours * 3_600_000).toISOString() })}`, signal),
    () => 30_000,
    [hours]
  )
  const day = usePoll<History>(
    (signal) => get(`/history${queryOf({ step: spans.day[1], ...periodsOf(...spans.day) })}`, signal),
    () => 60_000,
    []
  )
  usePoll(silenced.load, () => intervals.list, [])
  const refresh = () => {
    overview.refresh()
    day.refresh()
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
            {day.state.value.data === undefined
              ? null
              : <PastAlerts alerts={found.alerts} history={day.state.value.data} />}
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
          {(found) => <Plots history={found} span={span} starts={overview.state.value.data?.node_starts ?? []} />}
        </Loaded>
        {times.state.value.data === undefined ? null : <Times durations={times.state.value.data} />}
        <p class="hint">
          A dashed line is the start of a node. Counts are approximate: after a fault of the database, ten seconds may
          count twice.
        </p>
      </section>
    </Screen>
  )
}
