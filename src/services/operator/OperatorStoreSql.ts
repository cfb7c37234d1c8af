/** Searches of operators in Postgres, on connections of their own. A page is two statements: its keys, then their rows. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { deliveryId, type DeliveryKey, parseDeliveryId } from "../../domain/Webhook.ts"
import { revocationOf } from "../store/revocations/RevocationRepositorySql.ts"
import { array, make as makeQueries } from "../store/sql/Queries.ts"
import { idPattern } from "../store/tasks/TaskSearch.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import * as TaskStoreSql from "../store/tasks/TaskStoreSql.ts"
import { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as WebhookStoreSql from "../store/webhooks/WebhookStoreSql.ts"
import { History } from "./History.ts"
import * as HistorySql from "./HistorySql.ts"
import * as Statements from "./OperatorStatements.ts"
import {
  examinedRuns,
  groupedFailures,
  listedAssistants,
  listedOrigins,
  measuredTasks,
  OperatorStore,
  type Page,
  pageOf,
  type Position,
  scannedRows,
  type TaskSearch
} from "./OperatorStore.ts"
import * as SelectionStatements from "./SelectionStatements.ts"
import { StoredBytesStore } from "./StoredBytes.ts"
import * as StoredBytesSql from "./StoredBytesSql.ts"

const { int4, uuid } = PgTypes.OID

/** The page of the keys, with each key replaced by its row. A row that was deleted meanwhile is left out. */
const withRows = <Row>(
  page: Page<Pick<Position, "id">>,
  idOf: (row: Row) => string,
  rows: ReadonlyArray<Row>
): Page<Row> => {
  const byId = new Map(rows.map((row) => [idOf(row), row]))
  return { ...page, rows: page.rows.flatMap(({ id }) => byId.get(id) ?? []) }
}

/** Bounds and a pattern of ids that begin with a text of eight digits or more. */
const bindIds = (text: string) => {
  const [digits = ""] = /^[0-9a-f]{8}[0-9a-f-]*/i.exec(text) ?? []
  const pattern = idPattern(text)?.slice(1)
  if (digits === "" || pattern === undefined) return undefined
  const bound = (fill: string) => {
    const all = digits.replaceAll("-", "").slice(0, 32).padEnd(32, fill)
    return all.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
  }
  return [bound("0"), bound("f"), pattern]
}

const makeKeys = Effect.map(
  makeQueries,
  ({ rows }): OperatorStore["Service"]["keys"] => (selection, after, limit) => {
    const { query, values } = SelectionStatements.keys(selection, after, limit + 1)
    return Effect.map(
      rows(query, values),
      (found) => pageOf(found.filter(({ isEdge }) => !isEdge), limit, found.find(({ isEdge }) => isEdge))
    )
  }
)

const makeTasks = Effect.gen(function*() {
  const { rows } = yield* makeQueries
  const keys = yield* makeKeys

  /** The keys of a page. Tasks that begin with a given id are one page. */
  const keysOf = Effect.fnUntraced(function*(search: TaskSearch) {
    const ids = search.text === null || search.after !== null ? undefined : bindIds(search.text)
    const known = ids === undefined ? [] : yield* rows(Statements.tasksLike, [...ids, search.limit])
    if (known.length > 0) return { rows: known, next: null, isComplete: true }
    return yield* keys(search, search.after, search.limit)
  })

  return Effect.fnUntraced(function*(search: TaskSearch) {
    const page = yield* keysOf(search)
    const found = yield* rows(Statements.tasksById, [array(page.rows.map(({ id }) => id), uuid)])
    return withRows(page, ({ uuid }) => uuid, found)
  })
})

const make = Effect.gen(function*() {
  const { count, first, rows } = yield* makeQueries

  const keys = yield* makeKeys

  const deliveriesById = Effect.fnUntraced(function*(wanted: ReadonlyArray<DeliveryKey>) {
    const found = yield* rows(Statements.deliveriesById, [
      array(wanted.map(({ taskId }) => taskId), uuid),
      array(wanted.map(({ revision }) => revision), int4)
    ])
    const byId = new Map(found.map((row) => [deliveryId(row), row]))
    return wanted.flatMap((key) => byId.get(deliveryId(key)) ?? [])
  })

  return OperatorStore.of({
    tasksById: Effect.fnUntraced(function*(ids) {
      const found = yield* rows(Statements.tasksById, [array(ids, uuid)])
      const byId = new Map(found.map((row) => [row.uuid, row]))
      return ids.flatMap((id) => byId.get(id) ?? [])
    }),
    deliveriesById,
    count: (selection) => {
      const { query, values } = SelectionStatements.count(selection)
      return count(query, values)
    },
    keys,
    tasks: yield* makeTasks,
    task: (uuid) => first(Statements.taskDetail, [uuid]),
    failures: ({ from, to }) => rows(Statements.failures, [from, to, groupedFailures]),
    durations: ({ from, to }) => rows(Statements.durations, [from, to, measuredTasks, listedAssistants]),
    stuck: (before, limit) =>
      Effect.map(rows(Statements.stuck, [examinedRuns, before, limit]), (found) => ({
        runs: found,
        total: found[0]?.total ?? 0,
        isComplete: found.every(({ examined }) => examined < examinedRuns)
      })),
    clocks: (limit) => rows(Statements.clocks, [limit]),
    stops: (limit) => rows(Statements.stops, [limit]),
    origins: ({ from, to }) =>
      Effect.map(rows(Statements.origins, [from, to, scannedRows, listedOrigins + 1]), (found) => ({
        origins: found.slice(0, listedOrigins),
        isComplete: found.length <= listedOrigins && found.every(({ examined }) => examined < scannedRows)
      })),
    deliveries: Effect.fnUntraced(function*(search) {
      const page = yield* keys(search, search.after, search.limit)
      return withRows(
        page,
        deliveryId,
        yield* deliveriesById(page.rows.flatMap(({ id }) => parseDeliveryId(id) ?? []))
      )
    }),
    revocations: (after, limit) =>
      Effect.map(
        rows(Statements.revocations, [after?.at ?? null, after?.id ?? null, limit]),
        (found) =>
          found.flatMap((row) => revocationOf(row).map((revocation) => ({ revocation, at: row.at, id: row.id })))
      ),
    largestUsers: (yield* StoredBytesStore).largest,
    store: yield* TaskStore,
    webhooks: yield* WebhookStore,
    history: yield* History
  })
})

/** Requires the client of operators. The other stores are built again on it. */
export const layer = Layer.effect(OperatorStore, make).pipe(
  Layer.provide(
    Layer.fresh(
      Layer.mergeAll(
        StoredBytesSql.layer,
        TaskStoreSql.layerTasks,
        WebhookStoreSql.layer,
        HistorySql.layer
      )
    )
  )
)
