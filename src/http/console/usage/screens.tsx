/** What tasks consumed in a range: of the user, and of all users for operators. */
import { useEffect } from "preact/hooks"
import type { Usage as Found, UsageBucket, UsageTotals } from "../../client/promise/Types.ts"
import { useAction } from "../actions.ts"
import { client } from "../api.ts"
import * as assistants from "../assistants.ts"
import { now } from "../clock.ts"
import { Fact } from "../components/Basics.tsx"
import { Select, TextFilter } from "../components/Filters.tsx"
import type { Screens } from "../components/Parts.tsx"
import { topOf } from "../components/Plot.tsx"
import { Empty, Loaded, Problem, Screen } from "../components/Screen.tsx"
import { Cell, DataTable, Text } from "../components/Table.tsx"
import { csvOf, save } from "../csv.ts"
import { useKeys } from "../keys.ts"
import * as operator from "../operator.ts"
import { usePoll } from "../poll.ts"
import { href, query, queryOf } from "../Router.ts"
import { money } from "./money.ts"

const day = 86_400_000
/** Milliseconds. */
const interval = 30_000
/** Largest groups that are shown. */
const shown = 20

const ranges = [["7", "Last 7 days"], ["30", "Last 30 days"], ["90", "Last 90 days"], ["365", "Last 365 days"]] as const
const chosenDays = () => Number(ranges.find(([days]) => days === query.value.get("days"))?.[0] ?? 30)

const count = (value: number) => value.toLocaleString("en")
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 })

/** Days are those of UTC, as the service counts. */
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)
const dayName = (date: string) =>
  new Date(`${date}T00:00:00Z`).toLocaleDateString("en", { timeZone: "UTC", month: "short", day: "numeric" })

/** One bar: its parts from below. */
interface Column {
  readonly date: string
  readonly parts: ReadonlyArray<number>
}

const columnsOf = (
  { data, meta }: Found,
  partsOf: (bucket: UsageBucket) => ReadonlyArray<number>
): ReadonlyArray<Column> => {
  const found = new Map(data.map((bucket) => [bucket.from.slice(0, 10), bucket]))
  return Array.from({ length: chosenDays() }, (_, index) => {
    const date = dayOf(Date.parse(meta.from) + index * day)
    const bucket = found.get(date)
    return { date, parts: bucket === undefined ? [] : partsOf(bucket) }
  })
}

const width = 10
const height = 100
const sumOf = ({ parts }: Column) => parts.reduce((sum, part) => sum + part, 0)

/** Bars by day. The table below has the same numbers. */
const Chart = ({ columns, legend, name, show }: {
  /** As in `Tokens`. */
  readonly name: string
  readonly columns: ReadonlyArray<Column>
  readonly legend: ReadonlyArray<string>
  readonly show: (value: number) => string
}) => {
  const largest = topOf(Math.max(...columns.map(sumOf)))
  const most = columns.reduce((one, other) => sumOf(other) > sumOf(one) ? other : one)
  const [first, last] = [columns[0]?.date ?? "", columns.at(-1)?.date ?? ""]
  const words = `${name} by day, from ${dayName(first)} to ${dayName(last)}; most on ${dayName(most.date)}: ${
    show(sumOf(most))
  }`
  const marked = [0, Math.floor(columns.length / 2), columns.length - 1]
  return (
    <figure class="usage-chart">
      <div class="usage-scale" aria-hidden="true">
        {[largest, largest / 2, 0].map((value) => <span key={value}>{short.format(value)}</span>)}
      </div>
      <svg viewBox={`0 0 ${columns.length * width} ${height}`} preserveAspectRatio="none" role="img" aria-label={words}>
        {[0, 50, 100].map((y) => <line key={y} x1="0" x2={columns.length * width} y1={y} y2={y} />)}
        {columns.map((column, index) => {
          let y = height
          return (
            <g key={column.date}>
              <title>{`${dayName(column.date)}: ${show(sumOf(column))}`}</title>
              {column.parts.map((part, kind) => {
                const high = part / largest * height
                y -= high
                return (
                  <rect
                    key={kind}
                    class={`usage-${kind}`}
                    x={index * width + 1.5}
                    width={width - 3}
                    y={y}
                    height={high}
                  />
                )
              })}
            </g>
          )
        })}
      </svg>
      <div class="usage-days" aria-hidden="true">
        {marked.map((index) => <span key={index}>{dayName(columns[index]?.date ?? "")}</span>)}
      </div>
      <figcaption>
        {legend.map((text, kind) => <span key={text} class={`usage-key usage-${kind}`}>{text}</span>)}
        <span>{name} a day, in UTC</span>
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
    ] as const).map(([term, value]) => <Fact key={term} term={term}>{value}</Fact>)}
  </dl>
)

const numbers = ["Tasks", "Input", "Output", "Cost"] as const

/** A table of buckets, each with a name. */
const Buckets = ({ caption, currency, data, first, linkOf, nameOf }: {
  readonly caption: string
  readonly first: string
  readonly data: ReadonlyArray<UsageBucket>
  readonly currency: string | null
  readonly nameOf: (bucket: UsageBucket) => string
  readonly linkOf?: ((bucket: UsageBucket) => string | undefined) | undefined
}) => {
  const columns = currency === null ? numbers.slice(0, 3) : [...numbers.slice(0, 3), `Cost, ${currency}`]
  return (
    <DataTable region={caption} caption={caption} columns={[first, ...columns]} numbers={columns}>
      {data.map((bucket) => {
        const to = linkOf?.(bucket)
        return (
          <tr key={`${bucket.from} ${nameOf(bucket)}`}>
            <th scope="row">
              {to === undefined ? <Text>{nameOf(bucket)}</Text> : (
                <a href={href(to)}>
                  <Text>{nameOf(bucket)}</Text>
                </a>
              )}
            </th>
            <Cell label="Tasks" class="number">{count(bucket.tasks)}</Cell>
            <Cell label="Input" class="number">{count(bucket.input_tokens)}</Cell>
            <Cell label="Output" class="number">{count(bucket.output_tokens)}</Cell>
            {currency === null ? null : <Cell label="Cost" class="number">{money(bucket.cost)}</Cell>}
          </tr>
        )
      })}
    </DataTable>
  )
}

type Group = "model" | "assistant" | "sub"

const groups: Readonly<Record<Group, { readonly first: string; readonly title: string }>> = {
  model: { first: "Model", title: "By model" },
  assistant: { first: "Assistant", title: "By assistant" },
  sub: { first: "User", title: "Largest users" }
}

const chosenGroup = (offered: ReadonlyArray<Group>): Group =>
  offered.find((name) => name === query.value.get("by")) ?? offered[0] ?? "model"

const groupName = ({ group: { assistant, model, sub } }: UsageBucket) =>
  sub ?? (assistant === undefined ? model ?? "Without a model" : assistants.nameOf(assistant))

interface Both {
  readonly byDay: Found
  /** The largest first. */
  readonly byGroup: Found
}

const Report = ({ byDay, byGroup, group, linkOf }: Both & {
  readonly group: Group
  readonly linkOf?: ((bucket: UsageBucket) => string | undefined) | undefined
}) => {
  const { data, meta: { currency }, totals } = byDay
  if (data.length === 0) {
    return (
      <Empty title={`Nothing was used in the last ${chosenDays()} days`}>
        <p>Tokens and their cost by day, model and assistant are here once a task has ended.</p>
      </Empty>
    )
  }
  const { first, title } = groups[group]
  const largest = byGroup.data.toSorted((a, b) => b.total_tokens - a.total_tokens).slice(0, shown)
  return (
    <div class="usage">
      <Sums totals={totals} currency={currency} />
      <Chart
        name="Tokens"
        legend={["Input", "Output"]}
        columns={columnsOf(byDay, ({ input_tokens: input, output_tokens: output }) => [input, output])}
        show={count}
      />
      {currency === null || totals.cost === null ? null : (
        <Chart
          name={`Cost in ${currency}`}
          legend={[]}
          columns={columnsOf(byDay, ({ cost }) => [Number(cost ?? 0)])}
          show={(value) => `${money(String(value))} ${currency}`}
        />
      )}
      <section class="section">
        <h2>{title}</h2>
        <Buckets caption={title} first={first} data={largest} currency={currency} nameOf={groupName} linkOf={linkOf} />
      </section>
      <details class="more">
        <summary>By day</summary>
        <Buckets
          caption="By day"
          first="Day"
          data={data.toReversed()}
          currency={currency}
          nameOf={({ from }) => from.slice(0, 10)}
        />
      </details>
      <p class="hint">
        As assistants report it. What a broken model call used is not in it, nor what an attempt used that was begun
        again.
      </p>
    </div>
  )
}

/** How a query of the screen is read. */
type Read = (parameters: Readonly<Record<string, string | undefined>>, signal?: AbortSignal) => PromiseLike<Found>

/** Columns of the spreadsheet that are fields of a bucket. */
const counts = ["tasks", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost"] as const
const csvColumns = ["from", "to", "user", "assistant", "model", ...counts, "currency"]

/** By day and group, for a spreadsheet. */
const Download = ({ group, range, read }: {
  readonly read: Read
  readonly range: () => Readonly<Record<string, string | undefined>>
  readonly group: Group
}) => {
  const { error, isBusy, run } = useAction(async () => {
    const { data, meta } = await read({
      ...range(),
      step: "day",
      group_by: group === "sub" ? "sub" : "assistant,model"
    })
    const rows = data.map((bucket) => {
      const { from, group: { assistant, model, sub }, to } = bucket
      return [from, to, sub, assistant, model, ...counts.map((name) => bucket[name]), meta.currency]
    })
    save(`usage-${meta.from.slice(0, 10)}-${meta.to.slice(0, 10)}.csv`, csvOf([csvColumns, ...rows]))
  })
  return (
    <>
      <button type="button" class="button" aria-disabled={isBusy} onClick={() => run()}>Download CSV</button>
      <Problem error={error} />
    </>
  )
}

const Frame = ({ linkOf, offered, read, title }: {
  readonly title: string
  readonly offered: ReadonlyArray<Group>
  readonly read: Read
  readonly linkOf?: (bucket: UsageBucket) => string | undefined
}) => {
  const group = chosenGroup(offered)
  const isOfAll = offered.includes("sub")
  const range = () => ({
    from: `${dayOf(now.peek() - (chosenDays() - 1) * day)}T00:00:00Z`,
    assistant_id: query.value.get("assistant") ?? undefined,
    sub: isOfAll ? query.value.get("sub") ?? undefined : undefined
  })
  const { refresh, state } = usePoll(
    async (signal): Promise<Both> => {
      const ordered = isOfAll ? { order: "tokens", limit: String(shown) } : {}
      const [byDay, byGroup] = await Promise.all([
        read(range(), signal),
        read({ ...range(), step: "total", group_by: group, ...ordered }, signal)
      ])
      return { byDay, byGroup }
    },
    () => interval,
    [query.value.toString()]
  )
  useKeys({ r: refresh })
  useEffect(() => {
    if (!isOfAll && assistants.listed.value === undefined) void assistants.load()
  }, [])
  const listed = assistants.listed.value ?? []
  return (
    <Screen title={title} actions={<Download read={read} range={range} group={group} />}>
      <div class="filters" role="search">
        <Select name="days" label="Range" options={ranges} value={String(chosenDays())} />
        <Select
          name="by"
          label="By"
          options={offered.map((name) => [name, groups[name].first] as const)}
          value={group}
        />
        {isOfAll ? <TextFilter name="sub" label="User" isFirst /> : null}
        {isOfAll
          ? <TextFilter name="assistant" label="Assistant id" />
          : (
            <Select
              name="assistant"
              label="Assistant"
              options={[["", "All"], ...listed.map(({ id, name }) => [id, name || `Assistant ${id}`] as const)]}
            />
          )}
      </div>
      <Loaded polled={state.value} refresh={refresh}>
        {(found) => <Report {...found} group={group} linkOf={linkOf} />}
      </Loaded>
    </Screen>
  )
}

export const Usage = () => (
  <Frame
    title="Usage"
    offered={["model", "assistant"]}
    read={({ assistant_id, from, group_by = "", step }, signal) =>
      client.usage.get({
        from,
        step: step === "total" || step === "day" ? step : undefined,
        group_by: (["assistant", "model"] as const).filter((name) => group_by.split(",").includes(name)),
        assistant_id: assistant_id === undefined ? undefined : Number(assistant_id),
        maxRetries: 0,
        ...(signal === undefined ? {} : { signal })
      })}
  />
)

export const OpsUsage = () => (
  <Frame
    title="Usage of all users"
    offered={["sub", "assistant", "model"]}
    read={(parameters, signal) => operator.get<Found>(`/usage${queryOf(parameters)}`, signal)}
    linkOf={({ group: { sub } }) => sub === undefined ? undefined : `/ops/users/${encodeURIComponent(sub)}`}
  />
)

export const screens: Screens = [
  [/^\/usage$/, () => <Usage />],
  [/^\/ops\/usage$/, () => <OpsUsage />]
]
