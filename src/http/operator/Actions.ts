/** Handlers of bulk actions, single users and the audit. */
import { Duration, Effect, identity, Option, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { isName } from "../../domain/Principal.ts"
import { Revocation } from "../../domain/Revocation.ts"
import { format, formatOrNull, now, Timestamp } from "../../domain/Timestamp.ts"
import { TaskLinks } from "../../services/Extensions.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { Audit, type Line } from "../../services/operator/Audit.ts"
import { BulkActions } from "../../services/operator/Bulk.ts"
import type { Bulk } from "../../services/operator/BulkStore.ts"
import { allTasks } from "../../services/operator/Selection.ts"
import { Silences } from "../../services/operator/Silences.ts"
import { UserRecords, type UserSummary } from "../../services/operator/UserRecords.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { Conflict, Forbidden, invalid, NotFound } from "../contract/Errors.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { kind } from "../handlers/body/JsonBody.ts"
import { audited, CurrentOperator } from "../OperatorRoutes.ts"
import { cursorOf } from "../Parameters.ts"
import { BulkBody, EraseBody, LimitsBody, rates, SilenceBody } from "./ActionSchemas.ts"
import * as Filter from "./OperatorFilter.ts"
import * as Query from "./OperatorQuery.ts"
import { ShowsContent } from "./OperatorSettings.ts"
import * as Views from "./OperatorViews.ts"

const startBulk = kind(BulkBody, { to: identity })
const setSilence = kind(SilenceBody, { to: identity })
const setLimits = kind(LimitsBody, { to: identity })
const eraseUser = kind(EraseBody, { to: identity })

/** The end of a range that has none: tasks are created before it. */
const endOfTime = Timestamp.make(7_258_118_400_000_000)

const viewOf = (bulk: Bulk) => ({
  id: bulk.id,
  action: bulk.action,
  filter: { ...bulk.filter, ...(bulk.sub === null ? {} : { sub: bulk.sub }) },
  by: bulk.operator,
  reason: bulk.reason,
  rate: bulk.rate,
  started_at: format(bulk.startedAt),
  ended_at: formatOrNull(bulk.endedAt),
  state: bulk.state,
  matched: bulk.matched,
  done: bulk.done,
  skipped: bulk.skipped,
  failed: bulk.failed,
  errors: bulk.errors
})

const viewLine = ({ at, bulkId, ...line }: Line) => ({
  id: line.id,
  at: format(at),
  operator: line.operator,
  via: line.via,
  action: line.action,
  target: line.target,
  sub: line.sub,
  reason: line.reason,
  outcome: line.outcome,
  bulk_id: bulkId
})

/** Fields of extensions are JSON already. */
const viewUser = (user: UserSummary): Record<string, unknown> => ({
  sub: user.sub,
  slots: { used: user.pending + user.processing + user.interrupted, maximum: user.maximum },
  limits: { max_active_tasks: user.maxActiveTasks },
  running: user.processing,
  waiting: user.pending,
  interrupted: user.interrupted,
  failures: user.failures,
  stored_bytes: {
    bytes: user.storedBytes.bytes,
    tasks: user.storedBytes.tasks,
    complete: user.storedBytes.isComplete
  },
  last_revocation: user.revokedAt === null || user.issuedBefore === null
    ? null
    : { revoked_at: format(user.revokedAt), issued_before: format(user.issuedBefore) },
  ...Object.fromEntries(Object.entries(user.more).map(([name, json]) => [name, JSON.parse(json)]))
})

const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const unknownBulk = new NotFound({ message: "There is no such bulk action." })

const checkName = (sub: string) =>
  isName(sub) ? Effect.succeed(sub) : Effect.fail(new NotFound({ message: "There can be no user with this name." }))

export const make = Effect.gen(function*() {
  const audit = yield* Audit
  const backend = yield* AssistantBackend
  const bulk = yield* BulkActions
  const records = yield* UserRecords
  const silences = yield* Silences
  const tasks = yield* Tasks
  const links = yield* TaskLinks
  const showsContent = yield* ShowsContent
  const { read } = yield* BodyReader

  const find = Effect.fnUntraced(function*(id: string) {
    const found = uuidPattern.test(id) ? yield* bulk.get(id) : Option.none()
    return Option.isSome(found) ? found.value : yield* unknownBulk
  })

  return {
    audit: Effect.gen(function*() {
      const { order, search } = yield* Query.audit
      const { isComplete, next, rows } = yield* audit.search(search)
      return { data: rows.map(viewLine), next: cursorOf(order, next), complete: isComplete }
    }),

    startBulk: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { body: { action, dry_run: isDry, filter, rate, reason } } = yield* read(startBulk, request)
      if (action === "rerun" && !bulk.canRerun) {
        return yield* invalid(
          "action",
          "To run tasks again each needs a fresh token of its user: set TOKEN_URL",
          "no_fresh_tokens"
        )
      }
      const { selection, shown, sub } = yield* Filter.ofBody(action, filter, links)
      if (isDry === true) {
        const { matched, sample } = yield* bulk.dryRun(selection)
        return HttpServerResponse.jsonUnsafe({
          matched,
          sample: [...sample.tasks.map((task) => Views.task(task, backend)), ...sample.deliveries.map(Views.delivery)]
        })
      }
      const { name } = yield* CurrentOperator
      const id = yield* bulk.newId
      const matched = yield* bulk.count(selection)
      yield* audited(
        { action: `bulk_${action}`, target: id, sub, reason: reason ?? null, bulkId: id },
        bulk.start({
          id,
          action,
          filter: shown,
          selection,
          sub,
          reason: reason ?? null,
          rate: rate ?? rates.default,
          operator: name,
          matched
        })
      )
      return HttpServerResponse.jsonUnsafe({ id, matched }, { status: 202 })
    }),
    listBulk: Effect.map(bulk.list, (found) => ({ data: found.map(viewOf) })),
    getBulk: Effect.fnUntraced(function*(id: string) {
      const found = yield* find(id)
      return { ...viewOf(found), ...(found.action === "erase" ? { files: yield* bulk.files(found.id) } : {}) }
    }),
    stopBulk: Effect.fnUntraced(function*(id: string) {
      const found = yield* find(id)
      const ended = new Conflict({
        message: found.action === "erase"
          ? "An erasure cannot be stopped: it would leave a part of the user's data."
          : "The action has ended already.",
        code: "bulk_not_running"
      })
      if (found.action === "erase" || found.state !== "running") return yield* ended
      const stopped = yield* audited(
        { action: "bulk_stop", target: found.id, sub: found.sub, bulkId: found.id },
        bulk.stop(found.id)
      )
      return Option.isSome(stopped) ? viewOf(stopped.value) : yield* ended
    }),

    silences: Effect.map(silences.list, (found) => ({
      data: found.map(({ key, kind, operator, until }) => ({ kind, key, until: format(until), by: operator }))
    })),
    silence: Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { body: { hours, key, kind: of } } = yield* read(setSilence, request)
      const { name: by } = yield* CurrentOperator
      const until = yield* audited(
        { action: "silence", target: key, reason: `${of}: ${hours === null ? "ended" : `${hours} h`}` },
        silences.set({ kind: of, key, operator: by }, hours === null ? null : Duration.hours(hours))
      )
      return HttpServerResponse.jsonUnsafe({ kind: of, key, until: formatOrNull(until), by })
    }),

    user: Effect.fnUntraced(function*(name: string) {
      return HttpServerResponse.jsonUnsafe(viewUser(yield* records.summary(yield* checkName(name))))
    }),
    setLimits: Effect.fnUntraced(function*(name: string, request: HttpServerRequest.HttpServerRequest) {
      const sub = yield* checkName(name)
      const { body: { max_active_tasks: maximum } } = yield* read(setLimits, request)
      yield* audited(
        { action: "limits", sub, reason: `max_active_tasks: ${maximum}` },
        records.setLimit(sub, maximum)
      )
      return HttpServerResponse.jsonUnsafe({ sub, max_active_tasks: maximum })
    }),
    exportUser: Effect.fnUntraced(function*(name: string) {
      const { role } = yield* CurrentOperator
      if (role !== "full" || !showsContent) {
        return yield* new Forbidden({
          message: "The content of tasks is exported only with OPERATOR_CONTENT=on and an internal token."
        })
      }
      const sub = yield* checkName(name)
      yield* audited({ action: "export", sub }, Effect.void)
      const lines = Stream.map(records.exported(sub), (line) => `${line}\n`)
      return HttpServerResponse.stream(Stream.encodeText(lines), { contentType: "application/x-ndjson" })
    }),
    eraseUser: Effect.fnUntraced(function*(name: string, request: HttpServerRequest.HttpServerRequest) {
      const sub = yield* checkName(name)
      const { body: { confirm, reason } } = yield* read(eraseUser, request)
      if (confirm !== sub) return yield* invalid("confirm", "Expected the user of the address, to confirm")
      const { name: operator } = yield* CurrentOperator
      const id = yield* bulk.newId
      const selection = { ...allTasks, sub, to: endOfTime }
      const matched = yield* bulk.count(selection)
      yield* audited(
        { action: "erase", target: id, sub, reason: reason ?? null, bulkId: id },
        bulk.start({
          id,
          action: "erase",
          filter: {},
          selection,
          sub,
          reason: reason ?? null,
          rate: rates.maximum,
          operator,
          matched
        }).pipe(
          // The action does it again, if the process ends before it is done.
          Effect.andThen(
            Effect.flatMap(
              now,
              (issuedBefore) => tasks.revoke(Revocation.cases.User.make({ sub, issuedBefore, expiresAt: null }))
            )
          )
        )
      )
      return HttpServerResponse.jsonUnsafe({ id, matched }, { status: 202 })
    })
  }
})
