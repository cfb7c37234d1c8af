/** Erases all that is kept of a user: tasks, and the rows of every table that names users. */
import { Effect, Option } from "effect"
import { encode } from "../../domain/json/OpaqueJson.ts"
import * as Reader from "../../domain/json/Reader.ts"
import { object, raw } from "../../domain/json/Shape.ts"
import { isTerminal, type TaskHead } from "../../domain/Task.ts"
import { UserDataOfExtensions } from "../Extensions.ts"
import { countQuery, make as makeQueries } from "../store/sql/Queries.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import * as UserTables from "../store/UserTables.ts"
import { Tasks } from "../tasks/Tasks.ts"
import { Turns } from "../tasks/Turns.ts"
import { Audit } from "./Audit.ts"
import { userData as ofOperators } from "./OperatorTables.ts"

/** Rows that one statement deletes. */
const batch = 1000
const outputShape = object({ output: raw })

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Adds the ids of `file` and `voice` in a value of JSON. */
const addFileIds = (value: unknown, ids: Set<string>): void => {
  const open = [value]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (Array.isArray(next)) { for (const item of next) open.push(item) }
    else if (isObject(next)) {
      for (const [name, member] of Object.entries(next)) {
        if ((name === "file" || name === "voice") && isObject(member) && typeof member["id"] === "string") {
          ids.add(member["id"])
        } else open.push(member)
      }
    }
  }
}

const deletion = (table: string, isOfUser: string) =>
  countQuery(
    `WITH erased AS (
      DELETE FROM ${table} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${table} WHERE ${isOfUser} LIMIT ${batch})) RETURNING 1
    ) SELECT count(*)::int AS count FROM erased`
  )

/** Binds the user and the pseudonym, both also as JSON: in a filter as its user or the text of its search, in a selection as its user. */
const pseudonymizeBulk = `UPDATE operator_bulk SET sub = CASE sub WHEN $1::text THEN $2::text ELSE sub END,
    filter = replace(replace(filter, '"sub":' || $3::text, '"sub":' || $4::text), '"q":' || $3::text, '"q":' || $4::text),
    selection = replace(selection, '"sub":' || $3::text, '"sub":' || $4::text)
  WHERE id <> $5::uuid AND (sub = $1::text OR strpos(filter, ':' || $3::text) > 0 OR strpos(selection, ':' || $3::text) > 0)`

export const make = Effect.gen(function*() {
  const store = yield* TaskStore
  const tasks = yield* Tasks
  const turns = yield* Turns
  const audit = yield* Audit
  const { count, execute } = yield* makeQueries
  const tables = [...(yield* UserDataOfExtensions), ofOperators, UserTables.userData].flatMap(({ tables }) => tables)
  const deletions = tables.map(({ isOfUser, table }) => deletion(table, isOfUser))

  /** The ids of the backend's files that a task has sent, or got. */
  const filesOf = Effect.fnUntraced(function*({ uuid }: TaskHead) {
    const ids = new Set<string>()
    const stored = Option.getOrUndefined(yield* store.storedRequest(uuid))
    if (stored !== undefined) addFileIds(Reader.readValid(encode(stored.request)), ids)
    const outline = Option.getOrUndefined(yield* store.outline(uuid))
    if (outline !== undefined) {
      const output = yield* turns.read(outline, outputShape, (turn, bytes) => {
        const found = turn.field("output")
        return found === undefined ? undefined : Reader.readValid(bytes.subarray(found.start, found.end))
      })
      addFileIds(output, ids)
    }
    return [...ids]
  })

  /** Cancels a live task, whose run the core then stops, and deletes it. */
  const eraseTask = Effect.fnUntraced(function*(task: TaskHead, author: string) {
    let head = task
    for (let isDeleted = false; !isDeleted;) {
      if (!isTerminal(head.status)) {
        yield* tasks.withdraw(head, null, author).pipe(
          Effect.catchTags({ TaskHasEnded: () => Effect.void, TaskNotFound: () => Effect.void })
        )
      }
      const [present] = yield* store.heads([task.uuid])
      if (present === undefined) return
      head = present
      isDeleted = yield* tasks.delete(head).pipe(
        Effect.as(true),
        Effect.catchTags({ TaskNotEnded: () => Effect.succeed(false), TaskNotFound: () => Effect.succeed(true) })
      )
    }
  })

  /** Deletes the rows that are left, and returns their number. */
  const eraseRows = Effect.fnUntraced(function*(sub: string) {
    let erased = 0
    for (const statement of deletions) {
      for (let deleted = batch; deleted === batch;) {
        deleted = yield* count(statement, [sub])
        erased += deleted
      }
    }
    return erased
  })

  /** Gives the audit and other bulk actions a pseudonym instead of the user, and returns it. */
  const pseudonymize = Effect.fnUntraced(function*(sub: string, bulkId: string) {
    const pseudonym = yield* audit.pseudonym(sub)
    // The reason of a call may be the text of its user.
    yield* execute(
      `UPDATE operator_actions SET sub = $2::text, reason = CASE WHEN via <> 'rpc' THEN reason END WHERE sub = $1::text`,
      [sub, pseudonym]
    )
    yield* execute(pseudonymizeBulk, [sub, pseudonym, JSON.stringify(sub), JSON.stringify(pseudonym), bulkId])
    return pseudonym
  })

  return { filesOf, eraseTask, eraseRows, pseudonymize }
})
