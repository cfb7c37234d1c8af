/**
 * The audit: who changed or read what, for operators. A line is stored before its change is made, so that none is missing, and has its
 * outcome afterwards. Changes by calls, and each task of a bulk action, have theirs in the transaction of the change (`OperatorTables`).
 */
import { Cause, Context, Duration, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { Mac, SecureRandom } from "effect/crypto"
import { Base64Url } from "effect/encoding"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { now, plus, Timestamp } from "../../domain/Timestamp.ts"
import { deletionQuery, make as makeQueries, micros, moment, query } from "../store/sql/Queries.ts"
import * as Worker from "../timing/Worker.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { type Page, pageOf, type Position } from "./OperatorStore.ts"

/** Actions of operators by this extension; `revoke` may be of a token issuer. Other extensions have names of their own. */
export const actions = [
  "cancel",
  "withdraw",
  "content",
  "redeliver",
  "rerun",
  "delete",
  "drain",
  "take_in",
  "revoke",
  "bulk_cancel",
  "bulk_rerun",
  "bulk_redeliver",
  "bulk_delete",
  "bulk_stop",
  "limits",
  "queue",
  "silence",
  "export",
  "erase"
] as const

/** Those whose target is a task; that of others may have the same text. */
const ofTasks = ["cancel", "withdraw", "content", "rerun", "delete"].map((action) => `'${action}'`).join(", ")

/**
 * `started`: no outcome was stored, because the process or the database went away meanwhile. `unknown`: the change was interrupted or failed, and
 * may have been made.
 */
const outcomes = ["started", "done", "refused", "unknown"] as const

const Line = Schema.Struct({
  id: Schema.String,
  at: Timestamp,
  operator: Schema.String,
  via: Schema.String,
  action: Schema.String,
  target: Schema.NullOr(Schema.String),
  sub: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String),
  outcome: Schema.String,
  bulkId: Schema.NullOr(Schema.String)
})
export type Line = typeof Line.Type

/** The author, and its way: `api`, `console` or `cli`. */
export interface Author {
  readonly name: string
  readonly via: string
}

export interface NewLine {
  readonly action: string
  readonly target?: string | null
  readonly sub?: string | null
  readonly reason?: string | null
  readonly bulkId?: string | null
}

export interface AuditSearch {
  readonly sub: string | null
  readonly task: string | null
  readonly operator: string | null
  readonly action: string | null
  readonly from: Timestamp | null
  readonly to: Timestamp | null
  readonly after: Position | null
  readonly limit: number
}

/** Lines that one statement examines when no index answers the filter. */
const scanned = 20_000
const settleTimeout = Duration.seconds(2)
const deletionInterval = Duration.hours(1)
const deletionBatch = 1000
const keyPurpose = "audit-key"
const keyBytes = 32

const columns = `id::text AS id, ${micros("at")} AS at, operator, via, action, target, sub, reason, outcome,
  bulk_id::text AS "bulkId"`

/** Binds the name, the sealed key. Returns the stored one: another node may have been first. */
const addKey = query(
  Schema.Struct({ sealed: Schema.String }),
  `INSERT INTO operator_keys AS old (name, sealed) VALUES ('audit', $1::text)
  ON CONFLICT (name) DO UPDATE SET sealed = old.sealed RETURNING sealed`
)
const findKey = query(
  Schema.Struct({ sealed: Schema.String }),
  `SELECT sealed FROM operator_keys WHERE name = 'audit'`
)
const replaceKey = `UPDATE operator_keys SET sealed = $2::text WHERE name = 'audit' AND sealed = $1::text`

const add = query(
  Schema.Struct({ id: Schema.String }),
  `INSERT INTO operator_actions (operator, via, action, target, sub, reason, outcome, bulk_id)
  VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::uuid) RETURNING id::text AS id`
)
const settle = `UPDATE operator_actions SET outcome = $2::text WHERE id = $1::uuid`

const deleteExpired = deletionQuery("operator_actions", `at < ${moment("@before")}`)

const Found = Schema.Struct({ ...Line.fields, isEdge: Schema.Boolean })

/** Binds from, to, moment and id of the position, rows examined, rows returned, operator and action, then user or target. */
const searchOf = ({ sub, task }: Pick<AuditSearch, "sub" | "task">) => {
  const conditions = [
    `at >= coalesce(${moment("$1")}, '-infinity')`,
    `at < coalesce(${moment("$2")}, 'infinity')`,
    `($3::float8 IS NULL OR (at, id) < (${moment("$3")}, $4::uuid))`,
    ...(sub === null ? [] : ["sub = ANY (ARRAY[$9::text, $10::text])"]),
    ...(task === null ? [] : [`target = $${sub === null ? 9 : 11}::text AND action IN (${ofTasks})`])
  ]
  return query(
    Found,
    `WITH scanned AS (
      SELECT * FROM operator_actions WHERE ${conditions.join(" AND ")} ORDER BY at DESC, id DESC LIMIT $5::int
    )
    (SELECT ${columns}, false AS "isEdge" FROM scanned
      WHERE ($7::text IS NULL OR operator = $7::text) AND ($8::text IS NULL OR action = $8::text)
      ORDER BY scanned.at DESC, scanned.id DESC LIMIT $6::int)
    UNION ALL
    (SELECT ${columns}, true FROM scanned ORDER BY scanned.at DESC, scanned.id DESC OFFSET $5::int - 1)`
  )
}

export class Audit extends Context.Service<Audit, {
  /** Stores a line about something that is done. */
  readonly note: (author: Author, line: NewLine) => Effect.Effect<void, StoreUnavailable>
  /** Makes a change with a line of its own. Without the line there is no change. */
  readonly record: <A, E, R>(
    author: Author,
    line: NewLine,
    change: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | StoreUnavailable, R>
  /** Newest first. Lines about a user whose data were erased are found by the user too. */
  readonly search: (search: AuditSearch) => Effect.Effect<Page<Line>, StoreUnavailable>
  /** Stands for a user in lines that remain after an erasure. */
  readonly pseudonym: (sub: string) => Effect.Effect<string, StoreUnavailable>
}>()("async-task-service/services/operator/Audit") {
  static readonly layer = Layer.effect(Audit, Effect.suspend(() => make)).pipe(Layer.provide(Mac.layerWebCrypto))
}

const make = Effect.gen(function*() {
  const { execute, first, rows } = yield* makeQueries
  const secrets = yield* Secrets
  const mac = yield* Mac.Mac
  const random = yield* SecureRandom.SecureRandom

  /** The key stays the same when `ENCRYPTION_KEY` is rotated: the first node with another first key seals it again. */
  const loadKey = Effect.gen(function*() {
    let found = Option.getOrUndefined(yield* first(findKey, []))?.sealed
    if (found === undefined) {
      const bytes = yield* random.randomBytes(keyBytes)
      const sealed = yield* secrets.seal(keyPurpose, Redacted.make(Base64Url.encode(bytes)))
      found = (yield* rows(addKey, [sealed]))[0]?.sealed ?? sealed
    }
    const opened = yield* secrets.open(keyPurpose, found)
    const again = yield* secrets.seal(keyPurpose, opened)
    if (again.split(".")[1] !== found.split(".")[1]) yield* execute(replaceKey, [found, again])
    const bytes = yield* Effect.orDie(Effect.fromResult(Base64Url.decode(Redacted.value(opened))))
    return yield* Effect.orDie(Mac.key(Mac.hmacSha256, bytes))
  })
  const key = yield* Effect.cachedWithTTL(loadKey, Duration.minutes(10))

  const pseudonym = Effect.fnUntraced(function*(sub: string) {
    const tag = yield* Effect.orDie(mac.sign(yield* key, new TextEncoder().encode(sub)))
    return `hmac:${Base64Url.encode(tag)}`
  })

  const insert = ({ name, via }: Author, line: NewLine, outcome: typeof outcomes[number]) =>
    Effect.map(
      rows(add, [
        name,
        via,
        line.action,
        line.target ?? null,
        line.sub ?? null,
        line.reason ?? null,
        outcome,
        line.bulkId ?? null
      ]),
      ([row]) => row?.id ?? ""
    )

  /** A change that is interrupted, at its time limit for example, or that fails may have been made, in part or whole. */
  const outcomeOf = <A, E>(exit: Exit.Exit<A, E>) => {
    if (Exit.isSuccess(exit)) return "done"
    const isRefused = !Cause.hasInterrupts(exit.cause) && !Cause.hasDies(exit.cause) &&
      !Option.exists(Cause.findErrorOption(exit.cause), (error) => error instanceof StoreUnavailable)
    return isRefused ? "refused" : "unknown"
  }

  return Audit.of({
    note: (author, line) => Effect.asVoid(insert(author, line, "done")),
    record: Effect.fnUntraced(function*(author, line, change) {
      const id = yield* insert(author, line, "started")
      return yield* Effect.onExit(change, (exit) => {
        const outcome = outcomeOf(exit)
        const log = outcome === "unknown"
          ? Effect.annotateLogs(
            Effect.logWarning("a change by an operator did not end as it should, and may have been made"),
            {
              name: author.name,
              ...line
            }
          )
          : Effect.void
        return Effect.andThen(log, Effect.ignoreCause(Effect.timeout(execute(settle, [id, outcome]), settleTimeout)))
      })
    }),
    search: Effect.fnUntraced(function*(search) {
      const { action, after, from, limit, operator, sub, task, to } = search
      const isFiltered = operator !== null || action !== null
      const found = yield* rows(searchOf(search), [
        from,
        to,
        after?.at ?? null,
        after?.id ?? null,
        isFiltered ? scanned : limit + 1,
        limit + 1,
        operator,
        action,
        ...(sub === null ? [] : [sub, yield* pseudonym(sub)]),
        ...(task === null ? [] : [task])
      ])
      return pageOf(found.filter(({ isEdge }) => !isEdge), limit, found.find(({ isEdge }) => isEdge))
    }),
    pseudonym
  })
})

/** Deletes lines that are older than `AUDIT_RETENTION`. */
export const layerRetention = (retention: Duration.Duration) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { count } = yield* makeQueries
    const deleteOld = Effect.flatMap(now, (at) =>
      count(deleteExpired, { before: plus(at, Duration.negate(retention)), limit: deletionBatch }))
    yield* Worker.make({
      name: "the deletion of old lines of the audit",
      runOnce: Effect.repeat(deleteOld, {
        while: (deleted) =>
          deleted === deletionBatch
      }),
      interval: deletionInterval
    })
  }))
