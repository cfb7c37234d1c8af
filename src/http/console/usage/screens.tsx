/** What tasks consumed in the last 30 days: of the user, and of all users for operators. */
import type { Usage as Found, UsageBucket, UsageTotals } from "../../client/promise/Types.ts"
import { client } from "../api.ts"
import { now } from "../clock.ts"
import type { Screens } from "../components/Parts.tsx"
import { Empty, Loaded, Screen } from "../components/Screen.tsx"
import { Cell, DataTable, Text } from "../components/Table.tsx"
import { useKeys } from "../keys.ts"
import * as operator from "../operator.ts"
import { usePoll } from "../poll.ts"
import { money } from "./money.ts"

const day = 86_400_000
const days = 30
/** Milliseconds. */
const interval = 30_000
/** Largest groups that are shown. */
const shown = 20

const count = (value: number) => value.toLocaleString("en")
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 })

/** Days are those of UTC, as the service counts. */
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)
const dayName = (date: string) =>
  new Date(`${date}T00:00:00Z`).toLocaleDateString("en", { timeZone: "UTC", month: "short", day: "numeric" })

const firstDay = () => dayOf(now.peek() - (days - 1) * day)
const allDays = (from: string) => Array.from({ length: days }, (_, index) => dayOf(Date.parse(from) + index * day))

/** The next of 1, 2, 5, 10, 20 and so on. */
const roundUp = (value: number) => {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)))
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value
}

interface Day {
  readonly date: string
  readonly input: number
  readonly output: number
}

const daysOf = ({ data, meta }: Found): ReadonlyArray<Day> => {
  const found = new Map(data.map((bucket) => [bucket.from.slice(0, 10), bucket]))
  return allDays(meta.from.slice(0, 10)).map((date) => ({
    date,
    input: found.get(date)?.input_tokens ?? 0,
    output: found.get(date)?.output_tokens ?? 0
  }))
}

const width = 10
const height = 100

/** Bars of input and output. The table below the chart has the same numbers. */
const Chart = ({ columns }: { readonly columns: ReadonlyArray<Day> }) => {
  const largest = roundUp(Math.max(...columns.map(({ input, output }) => input + output)))
  const most = columns.reduce((one, other) => other.input + other.output > one.input + one.output ? other : one)
  const words = `Tokens by day, from ${dayName(columns[0]?.date ?? "")} to ${
    dayName(columns.at(-1)?.date ?? "")
  }; most on ${dayName(most.date)}: ${count(most.input + most.output)}`
  return (
    <figure class="usage-chart">
      <div class="usage-scale" aria-hidden="true">
        {[largest, largest / 2, 0].map((value) => <span key={value}>{short.format(value)}</span>)}
      </div>
      <svg viewBox={`0 0 ${columns.length * width} ${height}`} preserveAspectRatio="none" role="img" aria-label={words}>
        {[0, 50, 100].map((y) => <line key={y} x1="0" x2={columns.length * width} y1={y} y2={y} />)}
        {columns.map(({ date, input, output }, index) => {
          const [low, high] = [input / largest * height, output / largest * height]
          const x = index * width + 1.5
          return (
            <g key={date}>
              <title>{`${dayName(date)}: ${count(input)} input, ${count(output)} output`}</title>
              <rect class="usage-input" x={x} width={width - 3} y={height - low} height={low} />
              <rect class="usage-output" x={x} width={width - 3} y={height - low - high} height={high} />
            </g>
          )
        })}
      </svg>
      <div class="usage-days" aria-hidden="true">
        {[0, 15, 29].map((index) => <span key={index}>{dayName(columns[index]?.date ?? "")}</span>)}
      </div>
      <figcaption>
        <span class="usage-key usage-input">Input</span>
        <span class="usage-key usage-output">Output</span>
        <span>Tokens a day, in UTC</span>
      </figcaption>
    </figure>
  )
}

/** Tokens without a price are not in the cost. */
const costOf = ({ cost, unpriced_tokens: unpriced }: UsageTotals, currency: string) =>
  `${money(cost)} ${currency}${unpriced === 0 ? "" : `, without ${count(unpriced)} tokens that have no price`}`

const Sums = ({ currency, totals }: { readonly totals: UsageTotals; readonly currency: string | null }) => (
  <dl class="facts">
    {([
      ["Tokens", count(totals.total_tokens)],
      ["Input", `${count(totals.input_tokens)}, ${count(totals.cached_input_tokens)} cached`],
      ["Output", `${count(totals.output_tokens)}, ${count(totals.reasoning_tokens)} reasoning`],
      ["Tasks", `${count(totals.tasks)}, ${count(totals.unmetered_tasks)} without usage`],
      ...currency === null ? [] : [["Cost", costOf(totals, currency)] as const]
    ] as const).map(([term, value]) => (
      <div key={term}>
        <dt>{term}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
)

const numbers = ["Tasks", "Input", "Output", "Cost"] as const

/** A table of buckets, each with a name. */
const Buckets = ({ caption, currency, data, first, nameOf }: {
  readonly caption: string
  readonly first: string
  readonly data: ReadonlyArray<UsageBucket>
  readonly currency: string | null
  readonly nameOf: (bucket: UsageBucket) => string
}) => {
  const columns = currency === null ? numbers.slice(0, 3) : numbers
  return (
    <DataTable region={caption} caption={caption} columns={[first, ...columns]} numbers={columns}>
      {data.map((bucket) => (
        <tr key={nameOf(bucket)}>
          <th scope="row">
            <Text>{nameOf(bucket)}</Text>
          </th>
          <Cell label="Tasks" class="number">{count(bucket.tasks)}</Cell>
          <Cell label="Input" class="number">{count(bucket.input_tokens)}</Cell>
          <Cell label="Output" class="number">{count(bucket.output_tokens)}</Cell>
          {currency === null ? null : <Cell label="Cost" class="number">{money(bucket.cost)}</Cell>}
        </tr>
      ))}
    </DataTable>
  )
}

interface Both {
  readonly byDay: Found
  /** By model, or by user for operators; the largest first. */
  readonly byGroup: Found
}

const Report = ({ byDay, byGroup, first, title }: Both & { readonly first: string; readonly title: string }) => {
  const { data, meta: { currency }, totals } = byDay
  if (data.length === 0) return <Empty title="Nothing was used in the last 30 days" />
  return (
    <div class="usage">
      <Sums totals={totals} currency={currency} />
      <Chart columns={daysOf(byDay)} />
      <section class="section">
        <h2>{title}</h2>
        <Buckets
          caption={title}
          first={first}
          data={byGroup.data.slice(0, shown)}
          currency={currency}
          nameOf={({ group }) => group.sub ?? group.model ?? "Without a model"}
        />
      </section>
      <section class="section">
        <h2>By day</h2>
        <Buckets
          caption="By day"
          first="Day"
          data={data.toReversed()}
          currency={currency}
          nameOf={({ from }) => from.slice(0, 10)}
        />
      </section>
      <p class="hint">
        As assistants report it. What a broken model call used is not in it, nor what an attempt used that was begun
        again.
      </p>
    </div>
  )
}

const Usage = () => {
  const { refresh, state } = usePoll(
    async (signal): Promise<Both> => {
      const range = { from: `${firstDay()}T00:00:00Z`, maxRetries: 0, signal }
      const [byDay, byGroup] = await Promise.all([
        client.usage.get(range),
        client.usage.get({ ...range, step: "total", group_by: ["model"] })
      ])
      return { byDay, byGroup }
    },
    () => interval,
    []
  )
  useKeys({ r: refresh })
  return (
    <Screen title="Usage">
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => <Report {...found} first="Model" title="By model" />}
      </Loaded>
    </Screen>
  )
}

const OpsUsage = () => {
  const { refresh, state } = usePoll(
    async (signal): Promise<Both> => {
      const from = `${firstDay()}T00:00:00Z`
      const [byDay, byGroup] = await Promise.all([
        operator.get<Found>(`/usage${operator.queryOf({ from })}`, signal),
        operator.get<Found>(
          `/usage${operator.queryOf({ from, step: "total", group_by: "sub", order: "tokens", limit: String(shown) })}`,
          signal
        )
      ])
      return { byDay, byGroup }
    },
    () => interval,
    []
  )
  useKeys({ r: refresh })
  return (
    <Screen title="Usage of all users">
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => <Report {...found} first="User" title="Largest users" />}
      </Loaded>
    </Screen>
  )
}

export const screens: Screens = [
  [/^\/usage$/, () => <Usage />],
  [/^\/ops\/usage$/, () => <OpsUsage />]
]
