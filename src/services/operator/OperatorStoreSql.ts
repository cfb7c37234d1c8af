/** Searches of operators in Postgres, on connections of their own. A page is two statements: its keys, then their rows. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { deliveryId, parseDeliveryId } from "../../domain/Webhook.ts"
import { array, make as makeQueries } from "../store/Queries.ts"
import { revocationOf } from "../store/RevocationRepositorySql.ts"
import * as StoredBytesSql from "../store/StoredBytesSql.ts"
import { StoredBytesStore } from "../store/StoredBytesStore.ts"
import { TaskReads } from "../store/TaskReads.ts"
import * as TaskReadsSql from "../store/TaskReadsSql.ts"
import { TaskScans } from "../store/TaskScans.ts"
import * as TaskScansSql from "../store/TaskScansSql.ts"
import { WebhookStore } from "../store/WebhookStore.ts"
import * as WebhookStoreSql from "../store/WebhookStoreSql.ts"
import { History } from "./History.ts"
import * as HistorySql from "./HistorySql.ts"
import * as Statements from "./OperatorStatements.ts"
import {
  type DeliverySearch,
  errorLength,
  groupedFailures,
  listedOrigins,
  OperatorStore,
  orderOf,
  type Page,
  pageOf,
  type Position,
  scannedRows,
  type TaskSearch
} from "./OperatorStore.ts"

const { int4, uuid } = PgTypes.OID

/** A search whose index answers the whole filter examines one page. */
const scanOf = (isFiltered: boolean, limit: number) => isFiltered ? scannedRows : limit + 1

const bindTasks = (search: TaskSearch) => {
  const { after, error, from, limit, status, sub, to } = search
  const order = orderOf(search)
  const isFiltered = order === "live" || error !== null || (order === "created" && status !== null)
  return [
    from,
    to,
    after?.at ?? to,
    after?.id ?? (order === "live" ? Statements.highestUuid : Statements.lowestUuid),
    scanOf(isFiltered, limit),
    limit + 1,
    status,
    error?.slice(0, errorLength) ?? null,
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
const withRows = <Row>(page: Page<Position>, idOf: (row: Row) => string, rows: ReadonlyArray<Row>): Page<Row> => {
  const byId = new Map(rows.map((row) => [idOf(row), row]))
  return { ...page, rows: page.rows.flatMap(({ id }) => byId.get(id) ?? []) }
}

const make = Effect.gen(function*() {
  const { first, rows } = yield* makeQueries

  const keys = Effect.fnUntraced(function*(text: string, values: ReadonlyArray<unknown>, limit: number) {
    const found = yield* rows({ text, decode: Statements.decodeKeys }, values)
    return pageOf(found.filter(({ isEdge }) => !isEdge), limit, found.find(({ isEdge }) => isEdge))
  })

  const deliveryIds = (search: DeliverySearch) =>
    keys(Statements.deliveryKeys(search), bindDeliveries(search), search.limit)

  return OperatorStore.of({
    tasks: Effect.fnUntraced(function*(search) {
      const page = yield* keys(Statements.taskKeys(search), bindTasks(search), search.limit)
      const found = yield* rows(Statements.tasksById, [array(page.rows.map(({ id }) => id), uuid)])
      return withRows(page, ({ uuid }) => uuid, found)
    }),
    task: (uuid) => first(Statements.taskDetail, [uuid]),
    failures: ({ from, to }) => rows(Statements.failures, [from, to, groupedFailures]),
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
