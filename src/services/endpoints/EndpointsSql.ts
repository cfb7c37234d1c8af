/** Webhook endpoints in Postgres; see `EndpointTables`, `EndpointStatements` and `EndpointClaim`. */
import { Duration, Effect, Layer, Option, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { toText } from "../../domain/json/OpaqueJson.ts"
import { plus, type Timestamp } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { failWhenUnavailable, make as makeQueries } from "../store/sql/Queries.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { Definition, keptWhileDisabled } from "./Endpoint.ts"
import * as EndpointClaim from "./EndpointClaim.ts"
import { type EndpointDelivery, EndpointsStore, type Health } from "./EndpointsStore.ts"
import * as Statements from "./EndpointStatements.ts"

const outboxOf = Effect.gen(function*() {
  const { execute, first, rows } = yield* makeQueries
  const floors = new Map<string, ScanFloor.ScanFloor>()
  const floorOf = (id: string) => {
    const floor = floors.get(id) ?? ScanFloor.make()
    floors.set(id, floor)
    return floor
  }
  const outbox: EndpointsStore["Service"]["outbox"] = {
    claim: Effect.fnUntraced(function*(request) {
      const since = new Map<string, Timestamp>()
      for (const [id, floor] of floors) since.set(id, yield* floor.from(request.at))
      const claimed = yield* rows(EndpointClaim.claim, EndpointClaim.bindClaim(request, since))
      const oldest = new Map(claimed[0]?.oldest)
      for (const id of floors.keys()) if (!oldest.has(id)) floors.delete(id)
      // Attempts that may not count as lost yet are not found.
      if (request.lostBefore >= request.at) {
        for (const [id, at] of oldest) yield* floorOf(id).raise(at ?? request.at)
      }
      const deliveries = claimed.flatMap((row): ReadonlyArray<EndpointDelivery> =>
        row.endpointId === null
          ? []
          : [{ ...Struct.omit(row, ["endpointId", "oldest", "hasMore"]), sub: row.endpointId, claimedAt: request.at }]
      )
      const found = [...oldest.values()].flatMap((at) => at ?? [])
      return {
        deliveries,
        hasMore: claimed[0]?.hasMore ?? false,
        oldest: found.reduce((one, other) => other < one ? other : one, request.at)
      }
    }),
    oldestDue: () => Effect.succeed(null),
    body: (delivery) =>
      Effect.map(first(EndpointClaim.body, EndpointClaim.bindKey(delivery)), Option.map(({ body }) => body)),
    postpone: (delivery, until) =>
      execute(EndpointClaim.postpone, [
        ...EndpointClaim.bindKey(delivery),
        until,
        delivery.attempt,
        delivery.claimedAt
      ]),
    recordOutcomes: (outcomes) =>
      Effect.suspend(() => rows(EndpointClaim.recordOutcomes, EndpointClaim.bindOutcomes(outcomes))),
    committed: (at) => floors.forEach((floor) => floor.lower(at))
  }
  return outbox
})

/** Repeats a change of rows until it finds none. */
const untilNone = <E>(change: Effect.Effect<number, E>) => Effect.repeat(change, { while: (count) => count > 0 })

export const layer = Layer.effect(
  EndpointsStore,
  Effect.gen(function*() {
    const queries = yield* makeQueries
    const { execute, first, rows } = queries
    const sql = yield* SqlClient.SqlClient
    const pendingWork = yield* PendingWork
    pendingWork.add("endpoints", (soon) => [
      `FROM webhook_endpoints w JOIN LATERAL (
        SELECT FROM webhook_endpoint_deliveries d
        WHERE d.endpoint_id = w.id AND d.due_at <= ${soon} AND ${EndpointClaim.isFree(soon)} LIMIT 1
      ) AS d ON true WHERE ${EndpointClaim.isSent}`
    ])
    const outbox = yield* outboxOf
    const updates = new Map<string, ReturnType<typeof Statements.updateOf>>()

    return EndpointsStore.of({
      // One at a time, so that no more are inserted than may be.
      insert: (endpoint) => {
        const { createdAt, disabledAt, disabledReason, id, secret } = endpoint
        const values = Statements.valuesOf(Struct.pick(endpoint, Struct.keys(Definition.fields)))
        const bound = [
          id,
          secret,
          disabledAt,
          disabledReason,
          createdAt,
          ...Statements.fields.map((field) => values[field] ?? null)
        ]
        return failWhenUnavailable(
          sql.withTransaction(Effect.andThen(sql.unsafe(Statements.lock), sql.unsafe(Statements.insert, bound)))
        ).pipe(Effect.map((inserted) => inserted.length > 0))
      },
      list: (after, limit) =>
        Effect.map(
          rows(Statements.list, [after?.at ?? null, after?.id ?? null, limit]),
          (found) => found.map(Statements.endpointOf)
        ),
      get: (id) => Effect.map(first(Statements.get, [id]), Option.map(Statements.endpointOf)),
      update: Effect.fnUntraced(function*(id, changes, disabled, at) {
        const values = Statements.valuesOf(changes)
        const changed = Statements.fields.filter((field) => values[field] !== undefined)
        const key = changed.join()
        const statement = updates.get(key) ?? Statements.updateOf(changed)
        updates.set(key, statement)
        const becomes = disabled === undefined ? "kept" : disabled ?? "enabled"
        const found = yield* first(statement, [id, at, becomes, ...changed.map((field) => values[field])])
        return Option.map(found, Statements.endpointOf)
      }),
      rotate: (id, secret, oldUntil, at) =>
        Effect.map(first(Statements.rotate, [id, at, secret, oldUntil]), Option.map(Statements.endpointOf)),
      resume: Effect.fnUntraced(function*(limit) {
        for (const { at, id } of yield* rows(Statements.resuming, [])) {
          const oldest = plus(at, Duration.negate(keptWhileDisabled))
          yield* untilNone(queries.count(Statements.dropTooOld, [id, at, oldest, limit]))
          yield* untilNone(queries.count(Statements.resumePending, [id, at, limit]))
          for (let from: Timestamp | null = oldest; from !== null;) {
            const [batch]: ReadonlyArray<{ readonly last: Timestamp | null }> = yield* rows(Statements.resumeFailed, [
              id,
              at,
              from,
              limit
            ])
            from = batch?.last ?? null
          }
          yield* execute(Statements.resumed, [id, at])
        }
      }),
      remove: (id) => Effect.map(queries.count(Statements.remove, [id]), (count) => count > 0),

      replaceSecret: (sealed, by) => execute(Statements.replaceSecret, [sealed, by]),

      deliveries: (id, state, after, limit) =>
        Effect.map(
          rows(Statements.pages[state ?? "all"], [
            id,
            after?.at ?? null,
            after?.taskId ?? null,
            after?.revision ?? null,
            limit
          ]),
          (found) => found.map(Statements.deliveryOf)
        ),
      delivery: ({ endpointId, revision, taskId }) =>
        Effect.map(first(Statements.delivery, [endpointId, taskId, revision]), Option.map(Statements.deliveryOf)),
      redeliver: ({ endpointId, revision, taskId }, at) =>
        Effect.map(queries.count(Statements.redeliver, [endpointId, taskId, revision, at]), (count) => count > 0),
      replay: Effect.fnUntraced(function*(id, { failedOnly, from, to }, at, limit) {
        const [found] = yield* rows(failedOnly ? Statements.replays.failed : Statements.replays.all, [
          id,
          from,
          to,
          at,
          limit
        ])
        const { enqueued = 0, matched = 0 } = found ?? {}
        return { enqueued, left: matched - enqueued }
      }),
      addSample: ({ attempt, body, endpointId, format, happenedAt, revision, status, taskId }) =>
        execute(Statements.addSample, [
          endpointId,
          taskId,
          revision,
          format,
          happenedAt,
          body,
          status,
          attempt === null ? null : JSON.stringify([attempt]),
          attempt?.startedAt ?? null,
          attempt?.error === null ? happenedAt : null
        ]),
      read: Effect.fnUntraced(function*(id, after, at) {
        yield* execute(Statements.place, [id, at])
        const found = yield* rows(Statements.readPlaced, [id, after])
        return found.map(({ body, position, revision, status, taskId }) => ({
          position,
          key: { taskId, revision },
          status,
          body: toText(body)
        }))
      }),

      outbox,

      deleteBefore: (before, limit) =>
        Effect.tap(
          queries.count(Statements.deleteDeliveries, [before, limit]),
          () => execute(Statements.forgetRemovals, [])
        ),
      dropOld: (before, limit) => queries.count(Statements.dropOld, [before, limit]),
      dropBacklog: Effect.fnUntraced(function*(bytes, limit) {
        const [size] = yield* rows(Statements.bodyPages, [])
        if (size === undefined || size.bytes < bytes) return 0
        const percent = Math.min(100, (100 * Statements.sampledPages) / Math.max(1, size.pages))
        const until = (yield* rows(Statements.backlogUntil, [bytes, percent]))[0]?.until ?? null
        if (until === null) return 0
        let sum = 0
        for (const { id } of yield* rows(Statements.ids, [])) {
          for (let from: Timestamp | null = ScanFloor.lowest; from !== null;) {
            const [batch]: ReadonlyArray<{ readonly count: number; readonly last: Timestamp | null }> = yield* rows(
              Statements.dropBacklog,
              [id, from, until, limit]
            )
            sum += batch?.count ?? 0
            from = batch?.last ?? null
          }
        }
        return sum
      }),
      health: Effect.map(rows(Statements.health, []), (found): ReadonlyArray<Health> => found)
    })
  })
)
