/** Webhook endpoints in Postgres; see `EndpointTables`, `EndpointStatements`, `EndpointClaim` and `EndpointUpkeep`. */
import { Cause, Duration, Effect, Layer, Number, Option, Semaphore, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { toText } from "../../domain/json/OpaqueJson.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { failWhenUnavailable, make as makeQueries, type Query } from "../store/sql/Queries.ts"
import { logFault } from "../timing/Retry.ts"
import * as ScanFloor from "../timing/ScanFloor.ts"
import { Definition, keptWhileDisabled } from "./Endpoint.ts"
import * as EndpointClaim from "./EndpointClaim.ts"
import { type EndpointDelivery, EndpointsStore, type Health } from "./EndpointsStore.ts"
import * as Statements from "./EndpointStatements.ts"
import * as Upkeep from "./EndpointUpkeep.ts"

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
      const oldest = new Map(claimed.find(({ oldest }) => oldest !== null)?.oldest)
      for (const id of floors.keys()) if (!oldest.has(id)) floors.delete(id)
      // Attempts that may not count as lost yet are not found.
      if (request.lostBefore >= request.at) {
        for (const [id, at] of oldest) yield* floorOf(id).raise(at ?? request.at)
      }
      const deliveries = claimed.flatMap((row): ReadonlyArray<EndpointDelivery> =>
        row.endpointId === null
          ? []
          : [{ ...row, sub: row.endpointId, claimedAt: request.at }]
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

/** The upkeep of one endpoint after another. One that fails keeps no other from its turn. Returns the sum. */
const each = <E extends { readonly id: string }, F>(
  endpoints: ReadonlyArray<E>,
  change: (endpoint: E) => Effect.Effect<number, F>
) =>
  Effect.map(
    Effect.forEach(endpoints, (endpoint) =>
      Effect.catchCause(change(endpoint), (cause) =>
        Cause.hasInterrupts(cause)
          ? Effect.failCause(cause)
          : logFault("the upkeep of a webhook endpoint failed")(cause).pipe(
            Effect.annotateLogs({ endpoint: endpoint.id }),
            Effect.as(0)
          ))),
    Number.sumAll
  )

/** Statements that may take long have a connection that no statement of a client shares, one at a time. */
const makeUpkeep = Effect.gen(function*() {
  const { alone: query } = yield* makeQueries
  const turn = yield* Semaphore.make(1)
  const alone = <Row>(...call: Parameters<typeof query<Row>>) => turn.withPermit(query(...call))

  const forEachPage = Effect.fnUntraced(function*<P extends { readonly last: Timestamp | null }>(
    query: Query<P>,
    id: string,
    limit: number,
    values: ReadonlyArray<unknown>,
    onPage: (page: P) => void
  ) {
    for (let from: Timestamp | null = ScanFloor.lowest; from !== null;) {
      const [page]: ReadonlyArray<P> = yield* alone(query, [id, from, limit, ...values])
      if (page !== undefined) onPage(page)
      from = page?.last ?? null
    }
  })
  const walk = (query: typeof Upkeep.dropOld, id: string, limit: number, values: ReadonlyArray<unknown>) => {
    let sum = 0
    return Effect.map(forEachPage(query, id, limit, values, ({ count }) => void (sum += count)), () => sum)
  }

  /**
   * The moment until which changes are given up, so that the pending bodies of newer ones have at most so many bytes, and the values of the
   * statement that does.
   */
  const findBacklog = Effect.fnUntraced(function*(
    endpoints: ReadonlyArray<{ readonly id: string }>,
    bytes: number,
    at: Timestamp,
    limit: number
  ) {
    const byAge = new Map<number, number>()
    const walked: Array<Upkeep.Walked> = []
    yield* each(endpoints, ({ id }) => {
      let range: Upkeep.Walked | undefined
      const before = Upkeep.bindWalked(walked)
      return Effect.as(
        forEachPage(Upkeep.backlog, id, limit, [at, ...before], ({ ages, first, newest }) => {
          for (const [age, sum] of ages) byAge.set(age, (byAge.get(age) ?? 0) + sum)
          if (first === null || newest === null) return
          if (range === undefined) walked.push(range = { id, first, newest })
          range.first = Timestamp.make(Math.min(range.first, first))
          range.newest = Timestamp.make(Math.max(range.newest, newest))
        }),
        0
      )
    })
    let sum = 0
    for (const [age, ofAge] of [...byAge].toSorted(([one], [other]) => one - other)) {
      sum += ofAge
      if (sum > bytes) return [plus(at, Duration.negate(Upkeep.sinceAge(age))), ...Upkeep.bindWalked(walked)]
    }
    return undefined
  })
  return { alone, walk, findBacklog }
})

export const layer = Layer.effect(
  EndpointsStore,
  Effect.gen(function*() {
    const queries = yield* makeQueries
    const { execute, first, rows } = queries
    const { alone, findBacklog, walk } = yield* makeUpkeep
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
        yield* each(yield* rows(Upkeep.resuming, []), ({ at, id }) => {
          const values = [at, plus(at, Duration.negate(keptWhileDisabled))]
          return walk(Upkeep.resumePending, id, limit, values).pipe(
            Effect.andThen(walk(Upkeep.resumeFailed, id, limit, values)),
            Effect.tap(() => execute(Upkeep.resumed, [id, at]))
          )
        })
      }),
      remove: (id) => Effect.map(queries.count(Statements.remove, [id]), (count) => count > 0),

      replaceSecret: (sealed, by) => execute(Statements.replaceSecret, [sealed, by]),

      deliveries: (id, state, after, limit) =>
        Effect.map(
          alone(Statements.pages[state ?? "all"], [
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
        const [found] = yield* alone(failedOnly ? Statements.replays.failed : Statements.replays.all, [
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
        Effect.map(alone(Upkeep.deleteDeliveries, [before, limit]), ([deleted]) => deleted?.count ?? 0).pipe(
          Effect.tap(() => execute(Upkeep.forgetRemovals, []))
        ),
      dropOld: (before, limit) =>
        Effect.flatMap(
          rows(Upkeep.unsent, []),
          (unsent) => each(unsent, ({ id }) => walk(Upkeep.dropOld, id, limit, [before]))
        ),
      dropBacklog: Effect.fnUntraced(function*(bytes, limit) {
        const [bodies] = yield* rows(Upkeep.bodyBytes, [])
        if (bodies === undefined || bodies.bytes < bytes) return 0
        const endpoints = yield* rows(Upkeep.ids, [])
        const values = yield* findBacklog(endpoints, bytes, yield* now, limit)
        return values === undefined
          ? 0
          : yield* each(endpoints, ({ id }) => walk(Upkeep.dropBacklog, id, limit, values))
      }),
      health: Effect.map(alone(Upkeep.health, []), (found): ReadonlyArray<Health> => found)
    })
  })
)
