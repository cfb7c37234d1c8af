/** The store of usage in Postgres. */
import { Effect, Layer, Option, Schema, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { isTerminal, TaskStatus } from "../../domain/Task.ts"
import type { Tokens } from "../../domain/Usage.ts"
import type { UserData } from "../Extensions.ts"
import { PendingWork } from "../store/PendingWork.ts"
import type { Tables } from "../store/schema/Migrations.ts"
import { deletionQuery, failWhenUnavailable, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import type { Prices } from "./Prices.ts"
import { Amounts, Bucket, type Key, limits, type Order, type Step, TaskUsage, type UsageQuery } from "./Usage.ts"
import { Booked, UsageStore } from "./UsageStore.ts"

/** Sums of integers, by their columns. */
const integers = {
  tasks: "tasks",
  completed: "completed",
  failed: "failed",
  canceled: "canceled",
  inputTokens: "input_tokens",
  outputTokens: "output_tokens",
  totalTokens: "total_tokens",
  cachedInputTokens: "cached_input_tokens",
  reasoningTokens: "reasoning_tokens",
  activeSeconds: "active_seconds",
  unpricedTokens: "unpriced_tokens",
  unmeteredTasks: "unmetered_tasks"
} as const satisfies Record<Exclude<keyof Amounts, "cost">, string>

const names = Object.values(integers)
const keyColumns = ["sub", "hour", "assistant_id", "model"]

const kinds = ["input", "output", "total", "cached", "reasoning"] as const satisfies ReadonlyArray<keyof Tokens>

/**
 * The legs of a task up to a revision, which events alone tell. A resumed run that waited in the queue has begun when it left it. A leg ends with an interrupt; `later` counts the legs after it. Reports are
 * cumulative for the task, and what a leg reported last counts.
 */
const legsOf = (task: string, revision: string) =>
  `SELECT later, (array_agg(report -> 'tokens' ORDER BY revision DESC) FILTER (WHERE report -> 'tokens' IS NOT NULL))[1] AS tokens,
    sum(next_at - coalesce(started_at, occurred_at)) FILTER (WHERE status = 'processing') AS active
  FROM (
    SELECT revision, status, report, occurred_at, started_at, lag(occurred_at) OVER backwards AS next_at,
      count(*) FILTER (WHERE status = 'interrupted' AND revision < ${revision}) OVER backwards AS later
    FROM task_events WHERE task_uuid = ${task} AND revision <= ${revision}
    WINDOW backwards AS (ORDER BY revision DESC ROWS UNBOUNDED PRECEDING)
  ) AS event GROUP BY later`

const mostOf = (kind: string, filter = "") => `coalesce(max((tokens ->> '${kind}')::bigint)${filter}, 0)`
const secondsOf = (interval: string) => `coalesce(trunc(extract(epoch FROM ${interval}))::bigint, 0)`
const activeOf = (filter = "") => secondsOf(`sum(active)${filter}`)
const before = " FILTER (WHERE later > 0)"

const ends = `status IN (${TaskStatus.literals.filter(isTerminal).map((status) => `'${status}'`).join(", ")})`

/** A row of the outbox for each event of `new_events` that `condition` selects. `tokens` and `seconds` are what is beyond earlier rows. */
const bookEvents = (tokens: string, seconds: string, used: string) =>
  `INSERT INTO usage_outbox (task_uuid, revision, assistant_id, booked_at, active_seconds, sub, model, ended, tokens)
  SELECT e.task_uuid, e.revision, t.assistant_id, e.occurred_at, greatest(${seconds}, 0), t.sub, coalesce(e.report, (
      SELECT r.report FROM task_events r
      WHERE r.task_uuid = e.task_uuid AND r.revision < e.revision AND r.report IS NOT NULL ORDER BY r.revision DESC LIMIT 1
    )) ->> 'model', CASE WHEN e.${ends} THEN e.status END, ${tokens}
  FROM new_events e JOIN tasks t ON t.uuid = ANY (ARRAY[e.task_uuid]) CROSS JOIN LATERAL (${used}) AS used
  WHERE e.${ends} OR (e.status = 'interrupted' AND used.tokens IS NOT NULL);`

const bookFirstLegs = bookEvents(
  `CASE WHEN used.tokens IS NOT NULL THEN ARRAY[${
    kinds.map((kind) => `(used.tokens ->> '${kind}')::bigint`).join(", ")
  }] END`,
  secondsOf("e.occurred_at - used.since"),
  `SELECT coalesce(e.report -> 'tokens', (
      SELECT r.report -> 'tokens' FROM task_events r WHERE r.task_uuid = e.task_uuid AND r.revision < e.revision
        AND r.report -> 'tokens' IS NOT NULL ORDER BY r.revision DESC LIMIT 1
    )) AS tokens, (
      SELECT r.occurred_at FROM task_events r WHERE r.task_uuid = e.task_uuid AND r.revision = 1 AND r.status = 'processing'
    ) AS since`
)

const bookLaterLegs = bookEvents(
  "used.tokens",
  "used.seconds",
  `SELECT CASE WHEN count(tokens) > 0 THEN ARRAY[
      ${kinds.map((kind) => `${mostOf(kind)} - ${mostOf(kind, before)}`).join(",\n      ")}
    ] END AS tokens,
    ${activeOf()} - CASE WHEN count(tokens)${before} > 0 THEN ${activeOf(before)} ELSE 0 END AS seconds
  FROM (${legsOf("e.task_uuid", "e.revision")}) AS leg`
)

/**
 * Books each end, and each interrupt of a task that has reported tokens: what is beyond the bookings before. Few tasks are interrupted, and
 * without the sum over legs booking costs a third.
 */
const onEvents = `CASE (
    SELECT max(CASE WHEN n.status <> 'interrupted' AND NOT n.${ends} THEN 0 WHEN EXISTS (
        SELECT FROM task_events e WHERE e.task_uuid = n.task_uuid AND e.status = 'interrupted' AND e.revision < n.revision
      ) THEN 2 ELSE 1 END) FROM new_events n
  )
  WHEN 2 THEN
    ${bookLaterLegs}
  WHEN 1 THEN
    ${bookFirstLegs}
  ELSE
    NULL;
  END CASE;`

/**
 * Events are booked from an outbox, which a trigger fills as they are written. The model is empty where the core named none. The costs of tasks have a row for each task with a priced booking: the sums by hour do
 * not tell what one task cost, and a later price does not change it.
 */
export const tables: Tables = {
  name: "usage",
  migrations: [[
    `CREATE TABLE usage_hours (
      sub text NOT NULL,
      hour timestamptz NOT NULL,
      assistant_id bigint NOT NULL,
      model text NOT NULL,
      ${names.map((name) => `${name} bigint NOT NULL`).join(", ")},
      cost numeric,
      PRIMARY KEY (sub, hour, assistant_id, model)
    ) WITH (fillfactor = 80)`,
    `CREATE INDEX usage_hours_hour ON usage_hours (hour)`,
    `CREATE TABLE usage_costs (
      task_uuid uuid PRIMARY KEY REFERENCES tasks ON DELETE CASCADE,
      cost numeric NOT NULL
    )`,
    // A price holds from its moment to the next one of its model; null ends it.
    `CREATE TABLE usage_prices (
      model text NOT NULL,
      since timestamptz NOT NULL,
      input numeric,
      output numeric,
      cached numeric,
      PRIMARY KEY (model, since)
    )`,
    // In the order of the moments, so that booking finds the oldest rows without those that it has deleted. No index but that.
    `CREATE TABLE usage_outbox (
      task_uuid uuid NOT NULL,
      revision integer NOT NULL,
      assistant_id bigint NOT NULL,
      booked_at timestamptz NOT NULL,
      active_seconds bigint NOT NULL,
      sub text NOT NULL,
      model text,
      ended text,
      tokens bigint[],
      PRIMARY KEY (booked_at, task_uuid, revision)
    )`
  ], []],
  onEvents
}

const isOfUser = "sub = $1::text"

/** Bookings that wait become rows of hours, also while these are erased: an erasure looks again. */
export const userData: UserData = {
  tables: [
    { table: "usage_outbox", isOfUser, exported: null },
    {
      table: "usage_hours",
      isOfUser,
      exported: {
        type: "usage",
        key: { sub: "text", hour: "timestamptz", assistant_id: "bigint", model: "text" },
        fields: {
          hour: `to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
          assistant_id: "assistant_id",
          model: "nullif(model, '')",
          ...Object.fromEntries(names.map((name) => [name, name])),
          cost: "trim_scale(cost)::text"
        }
      }
    }
  ],
  others: { usage_costs: "the hours have the cost; the rows go with the task" },
  summary: {
    usage: `SELECT json_build_object('tasks', coalesce(sum(tasks), 0), 'total_tokens', coalesce(sum(total_tokens), 0),
        'cost', trim_scale(sum(cost))::text)
      FROM usage_hours WHERE ${isOfUser} AND hour >= date_trunc('month', now(), 'UTC')`
  }
}

const pricesOf = (prices: Prices | undefined) =>
  JSON.stringify(
    Object.entries(prices?.models ?? {}).map(([model, { cached_input, input, output }]) => ({
      model,
      input,
      output,
      cached: cached_input ?? input
    }))
  )

/**
 * Stores the prices `$2` that differ from the last ones, from the moment `$1` on. The first ones hold for all usage that is not
 * booked, if an earlier release booked some by them.
 */
const setPrices = `INSERT INTO usage_prices (model, since, input, output, cached)
  SELECT model, CASE WHEN EXISTS (SELECT FROM usage_prices) OR NOT EXISTS (SELECT FROM usage_hours WHERE cost IS NOT NULL)
    THEN greatest(${
  moment("$1")
}, last.since + interval '1 microsecond') ELSE '-infinity' END, given.input, given.output, given.cached
  FROM json_to_recordset($2::json) AS given (model text, input numeric, output numeric, cached numeric)
  FULL JOIN (SELECT DISTINCT ON (model) * FROM usage_prices ORDER BY model, since DESC) AS last USING (model)
  WHERE (given.input, given.output, given.cached) IS DISTINCT FROM (last.input, last.output, last.cached)
  ON CONFLICT (model, since) DO NOTHING`

/** Rows of the outbox in `rows` as rows of `usage_hours`, with the task. Each has the price of its moment. */
const entriesOf = (rows: string) =>
  `SELECT sub, date_trunc('hour', booked_at, 'UTC') AS hour, assistant_id, coalesce(model, '') AS model,
    (ended IS NOT NULL)::int AS tasks, (ended IS NOT DISTINCT FROM 'completed')::int AS completed,
    (ended IS NOT DISTINCT FROM 'failed')::int AS failed, (ended IS NOT DISTINCT FROM 'canceled')::int AS canceled,
    coalesce(tokens[1], 0) AS input_tokens, coalesce(tokens[2], 0) AS output_tokens, coalesce(tokens[3], 0) AS total_tokens,
    coalesce(tokens[4], 0) AS cached_input_tokens, coalesce(tokens[5], 0) AS reasoning_tokens, active_seconds,
    CASE WHEN price.input IS NULL THEN coalesce(tokens[3], 0) ELSE 0 END AS unpriced_tokens,
    (ended IS NOT NULL AND tokens IS NULL)::int AS unmetered_tasks,
    (greatest(tokens[1] - tokens[4], 0) * price.input + least(tokens[1], tokens[4]) * price.cached
      + tokens[2] * price.output) * 0.000001 AS cost,
    task_uuid
  FROM ${rows} AS outbox LEFT JOIN LATERAL (
    SELECT p.input, p.output, p.cached FROM usage_prices p
    WHERE p.model = outbox.model AND p.since <= outbox.booked_at AND outbox.tokens IS NOT NULL
    ORDER BY p.since DESC LIMIT 1
  ) AS price ON true`

const sums = names.map((name) => `sum(${name}) AS ${name}`).join(", ")

/** One node books at a time, so that bookings never wait for one another; the others find nothing. */
const book = query(
  Booked,
  `WITH taken AS (
    DELETE FROM usage_outbox WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM usage_outbox
      WHERE booked_at >= ${moment("$2")}
        AND (SELECT pg_try_advisory_xact_lock(hashtextextended('async-task-service:usage', 0)))
      ORDER BY booked_at LIMIT $1::int FOR UPDATE SKIP LOCKED
    )) RETURNING *
  ), entry AS (
    ${entriesOf("taken")}
  ), costs AS (
    INSERT INTO usage_costs AS c (task_uuid, cost)
    SELECT task_uuid, sum(cost) FROM entry JOIN tasks ON uuid = task_uuid WHERE cost IS NOT NULL GROUP BY task_uuid
    ON CONFLICT (task_uuid) DO UPDATE SET cost = c.cost + EXCLUDED.cost
  ), hours AS (
    INSERT INTO usage_hours AS h (${keyColumns.join(", ")}, ${names.join(", ")}, cost)
    SELECT ${keyColumns.join(", ")}, ${sums}, sum(cost) FROM entry GROUP BY ${keyColumns.join(", ")}
    ON CONFLICT (${keyColumns.join(", ")}) DO UPDATE SET
      ${names.map((name) => `${name} = h.${name} + EXCLUDED.${name}`).join(", ")},
      cost = CASE WHEN h.cost IS NULL THEN EXCLUDED.cost ELSE h.cost + coalesce(EXCLUDED.cost, 0) END
  )
  SELECT assistant_id::float8 AS "assistantId", nullif(model, '') AS model, count(*)::int AS rows,
    sum(input_tokens)::float8 AS "inputTokens", sum(output_tokens)::float8 AS "outputTokens"
  FROM entry GROUP BY assistant_id, model`
)

const keyOf: Readonly<Record<Key, string>> = { assistant: "assistant_id", model: "model", sub: "sub" }
const readKey: Readonly<Record<Key, string>> = {
  assistant: "coalesce(assistant_id, 0)::float8 AS assistant",
  model: "nullif(model, '') AS model",
  sub: "coalesce(sub, '') AS sub"
}

const periods: Readonly<Record<Step, string>> = {
  hour: "hour",
  day: "date_trunc('day', hour, 'UTC')",
  month: "date_trunc('month', hour, 'UTC')",
  total: moment("$1")
}

const amounts = [
  ...Object.entries(integers).map(([field, name]) => `coalesce(sum(${name}), 0)::float8 AS "${field}"`),
  `trim_scale(sum(cost))::text AS cost`
].join(", ")

/** The first row has the totals, and no keys. */
const Row = Schema.Struct({ ...Bucket.fields, isTotal: Schema.Boolean, from: Schema.NullOr(Bucket.fields.from) })

const orders: Readonly<Record<Order, string>> = {
  period: "period, sum(total_tokens) DESC, sum(tasks) DESC",
  tokens: "sum(total_tokens) DESC, sum(tasks) DESC, period",
  cost: "sum(cost) DESC NULLS LAST, sum(total_tokens) DESC, sum(tasks) DESC, period"
}

type Form = Pick<UsageQuery, "groupBy" | "order" | "step"> & { readonly sub: boolean }

const makeRead = ({ groupBy, order, step, sub }: Form) => {
  const filter = `($3::bigint IS NULL OR assistant_id = $3::bigint)${
    sub ? " AND sub = $4::text" : " AND $4::text IS NULL"
  }`
  const columns = [...keyColumns, ...names, "cost"].join(", ")
  const wanted = groupBy.map((key) => keyOf[key])
  const grouped = ["period", ...wanted].join(", ")
  const hourly = ["hour", ...wanted].join(", ")
  return query(
    Row,
    `WITH entry AS (
      SELECT ${columns} FROM usage_hours WHERE hour >= ${moment("$1")} AND hour < ${moment("$2")} AND ${filter}
      UNION ALL
      SELECT ${columns} FROM (${entriesOf("usage_outbox")}) AS pending
      WHERE hour >= ${moment("$1")} AND hour < ${moment("$2")} AND ${filter}
    ), hours AS (
      SELECT ${hourly}, ${sums}, sum(cost) AS cost FROM entry GROUP BY ${hourly}
    ), timed AS (
      SELECT *, ${periods[step]} AS period FROM hours
    )
    SELECT grouping(period) = 1 AS "isTotal", ${micros("period")} AS from, ${
      groupBy.map((key) => `${readKey[key]}, `).join("")
    }${amounts}
    FROM timed GROUP BY GROUPING SETS ((${grouped}), ())
    ORDER BY grouping(period) DESC, ${orders[order]}, ${grouped}
    LIMIT 1 + $5::int`
  )
}

/** The last leg of a task that lasts is not booked. */
const ofTask = query(
  Schema.Struct({ ...TaskUsage.fields, isBooked: Schema.Boolean }),
  `SELECT ${
    ["input", "output", "total", "cachedInput", "reasoning"].map((field, index) =>
      `${mostOf(kinds[index]!)}::float8 AS "${field}Tokens"`
    ).join(", ")
  }, ${activeOf()}::float8 AS "activeSeconds",
    (SELECT trim_scale(sum(cost))::text FROM (
      SELECT cost FROM usage_costs WHERE task_uuid = $1::uuid
      UNION ALL
      SELECT cost FROM (${entriesOf("usage_outbox")}) AS pending WHERE task_uuid = $1::uuid
    ) AS costs) AS cost,
    count(tokens) > 0 AS "isMetered", completed_at IS NOT NULL AS "isFinal",
    completed_at IS NOT NULL OR count(tokens) > 0 AS "isBooked"
  FROM tasks LEFT JOIN LATERAL (${legsOf("tasks.uuid", "2147483647")}) AS leg ON later > 0 OR completed_at IS NOT NULL
  WHERE uuid = $1::uuid GROUP BY uuid`
)

const deleteBefore = deletionQuery("usage_hours", `hour < ${moment("@before")}`)

export const layer = Layer.effect(
  UsageStore,
  Effect.gen(function*() {
    const { count, execute, first, rows } = yield* makeQueries
    const sql = yield* SqlClient.SqlClient
    const pendingWork = yield* PendingWork
    // Without a table of the sums the question fails, so that a booking shows it before there is usage.
    pendingWork.add("usage", () => ["FROM usage_outbox", "FROM usage_hours WHERE false"])
    const reads = new Map<string, ReturnType<typeof makeRead>>()

    /** A statement for each form of a query: there are few. */
    const readOf = ({ groupBy, order, step, sub }: UsageQuery) => {
      const key = [step, order, sub !== null, ...groupBy].join()
      const known = reads.get(key) ?? makeRead({ step, order, groupBy, sub: sub !== null })
      reads.set(key, known)
      return known
    }

    return UsageStore.of({
      setPrices: (prices, at) => execute(setPrices, [at, pricesOf(prices)]),

      book: (limit, from = ScanFloor.lowest) => rows(book, [limit, from]),

      read: Effect.fnUntraced(function*(asked) {
        const { assistantId, from, limit, sub, to } = asked
        const values = [from, to, assistantId, sub, limit ?? limits.buckets + 1]
        const [totals, ...buckets] = yield* rows(readOf(asked), values)
        return {
          totals: Struct.pick(totals!, Struct.keys(Amounts.fields)),
          buckets: buckets.map((row) => ({ ...Struct.omit(row, ["isTotal"]), from: row.from! }))
        }
      }),

      ofTask: (uuid) =>
        Effect.map(first(ofTask, [uuid]), (found) =>
          Option.match(found, {
            onNone: () => null,
            onSome: ({ isBooked, ...usage }) => isBooked ? usage : null
          })),

      // Rows that are being booked are locked: the second statement sees what became of them.
      erase: (sub) =>
        failWhenUnavailable(
          sql.withTransaction(
            Effect.andThen(
              sql`DELETE FROM usage_outbox WHERE sub = ${sub}`,
              sql`DELETE FROM usage_hours WHERE sub = ${sub}`
            )
          )
        ).pipe(Effect.asVoid),

      deleteBefore: (before, limit) => count(deleteBefore, { before, limit })
    })
  })
)
