/** Searches of operators in Postgres, on connections of their own. A page is two statements: its keys, then their rows. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { deliveryId, type DeliveryKey, parseDeliveryId } from "../../domain/Webhook.ts"
import { revocationOf } from "../store/revocations/RevocationRepositorySql.ts"
import { array, make as makeQueries } from "../store/sql/Queries.ts"
import { TaskReads } from "../store/tasks/TaskReads.ts"
import * as TaskReadsSql from "../store/tasks/TaskReadsSql.ts"
import { TaskScans } from "../store/tasks/TaskScans.ts"
import * as TaskScansSql from "../store/tasks/TaskScansSql.ts"
import { idPattern } from "../store/tasks/TaskSearch.ts"
import { WebhookStore } from "../store/webhooks/WebhookStore.ts"
import * as WebhookStoreSql from "../store/webhooks/WebhookStoreSql.ts"
import * as BulkStatements from "./BulkStatements.ts"
import * as ErrorFingerprint from "./ErrorFingerprint.ts"
import { History } from "./History.ts"
import * as HistorySql from "./HistorySql.ts"
import * as Statements from "./OperatorStatements.ts"
import {
  type DeliverySearch,
  errorLength,
  examinedRuns,
  groupedFailures,
  listedAssistants,
  listedOrigins,
  measuredTasks,
  OperatorStore,
  orderOf,
  type Page,
  pageOf,
  type Position,
  scannedRows,
  type TaskSearch
} from "./OperatorStore.ts"
import { StoredBytesStore } from "./StoredBytes.ts"
import * as StoredBytesSql from "./StoredBytesSql.ts"

const { int4, uuid } = PgTypes.OID

/** A search whose index answers the whole filter examines one page. */
const scanOf = (isFiltered: boolean, limit: number) => isFiltered ? scannedRows : limit + 1

const bindTasks = (search: TaskSearch) => {
  const { after, error, fingerprint, from, limit, status, sub, text, to } = search
  const order = orderOf(search)
  const isFiltered = order === "live" || error !== null || fingerprint !== null || text !== null ||
    (order === "created" && status !== null)
  return [
    from,
    to,
    after?.at ?? to,
    after?.id ?? (order === "live" ? Statements.highestUuid : Statements.lowestUuid),
    scanOf(isFiltered, limit),
    limit + 1,
    status,
    error?.slice(0, errorLength) ?? null,
    fingerprint === null ? null : ErrorFingerprint.patternOf(fingerprint),
    text,
    text === null ? null : idPattern(text),
    ...(sub === null ? [] : [sub])
  ]
}

const bindDeliveries = ({ after, error, from, limit, origin, state, to }: DeliverySearch) => {
  const key = after === null ? undefined : parseDeliveryId(after.id)
  const isFiltered = error !== null || (state !== null && state !== "failed")
  return [
    from,
    after?.at ?? to,
    key?.taskId ?? Statements.lowestUuid,
    key?.revision ?? 0,
    scanOf(isFiltered, limit),
    limit + 1,
    state,
    error,
    ...(origin === null ? [] : [origin])
  ]
}

/** The page of the keys, with each key replaced by its row. A row that was deleted meanwhile is left out. */
const withRows = <Row>(
  page: Page<Pick<Position, "id">>,
  idOf: (row: Row) => string,
  rows: ReadonlyArray<Row>
): Page<Row> => {
  const byId = new Map(rows.map((row) => [idOf(row), row]))
  return { ...page, rows: page.rows.flatMap(({ id }) => byId.get(id) ?? []) }
}

/** What finds the tasks whose id begins with a text, of which eight digits or more are known: bounds and a pattern. */
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

type Rows = Effect.Success<typeof makeQueries>["rows"]

const readKeys = (rows: Rows, text: string, values: ReadonlyArray<unknown>, limit: number) =>
  Effect.map(
    rows({ text, decode: Statements.decodeKeys }, values),
    (found) => pageOf(found.filter(({ isEdge }) => !isEdge), limit, found.find(({ isEdge }) => isEdge))
  )

const makeTasks = Effect.gen(function*() {
  const { rows } = yield* makeQueries

  /** The keys of a page. Tasks that begin with a given id are one page. */
  const keysOf = Effect.fnUntraced(function*(search: TaskSearch) {
    const ids = search.text === null || search.after !== null ? undefined : bindIds(search.text)
    const known = ids === undefined ? [] : yield* rows(Statements.tasksLike, [...ids, search.limit])
    if (known.length > 0) return { rows: known, next: null, isComplete: true }
    return yield* readKeys(rows, Statements.taskKeys(search), bindTasks(search), search.limit)
  })

  return Effect.fnUntraced(function*(search: TaskSearch) {
    const page = yield* keysOf(search)
    const found = yield* rows(Statements.tasksById, [array(page.rows.map(({ id }) => id), uuid)])
    return withRows(page, ({ uuid }) => uuid, found)
  })
})

const make = Effect.gen(function*() {
  const { count, first, rows } = yield* makeQueries

  const deliveryIds = (search: DeliverySearch) =>
    readKeys(rows, Statements.deliveryKeys(search), bindDeliveries(search), search.limit)

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
    bulk: {
      count: (selection) => {
        const { query, values } = BulkStatements.count(selection)
        return count(query, values)
      },
      keys: (selection, after, limit) => {
        const { query, values } = BulkStatements.keys(selection, after, limit)
        return Effect.map(rows(query, values), (found) => BulkStatements.endOf(found, limit))
      }
    },
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
      const page = yield* deliveryIds(search)
      const wanted = page.rows.flatMap(({ id }) => parseDeliveryId(id) ?? [])
      const found = yield* rows(Statements.deliveriesById, [
        array(wanted.map(({ taskId }) => taskId), uuid),
        array(wanted.map(({ revision }) => revision), int4)
      ])
      return withRows(page, deliveryId, found)
    }),
    deliveryIds,
    revocations: (after, limit) =>
      Effect.map(
        rows(Statements.revocations, [after?.at ?? null, after?.id ?? null, limit]),
        (found) =>
          found.flatMap((row) => revocationOf(row).map((revocation) => ({ revocation, at: row.at, id: row.id })))
      ),
    largestUsers: (yield* StoredBytesStore).largest,
    scans: yield* TaskScans,
    reads: yield* TaskReads,
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
        TaskScansSql.layer,
        TaskReadsSql.layer,
        WebhookStoreSql.layer,
        HistorySql.layer
      )
    )
  )
)
