/** Commands of operators for many tasks at once, for one user as a whole, and for the audit. */
import { Duration, Effect, Option, Predicate, Record, Schedule, type Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import * as Views from "../../../http/operator/ActionSchemas.ts"
import { ofSchedule, parameters, taskFilter } from "../../../http/operator/OperatorQuery.ts"
import { boolean, limit, optionalInt, optionalText, usage } from "../../cli/Flags.ts"
import { call, flagsOf, listing, type Token, writeLines } from "../../cli/InternalCall.ts"
import type { Output } from "../../cli/Output.ts"
import { described, internalToken, print, printResult, progress } from "../../cli/Root.ts"

type Bulk = typeof Views.BulkView.Type

const filterOf = (filter: Bulk["filter"]) =>
  Object.entries(filter).map(([name, value]) =>
    `${name} ${
      Array.isArray(value) ? `${value.length} given` : typeof value === "string" ? value : JSON.stringify(value)
    }`
  ).join(", ")

const showBulk = (bulk: Bulk, { age, fields }: Output) =>
  [
    fields([
      ["action", bulk.action],
      ["id", bulk.id],
      ["state", bulk.state],
      ["by", bulk.by],
      ["reason", bulk.reason],
      ["filter", filterOf(bulk.filter)],
      ["started", age(bulk.started_at)],
      ["ended", bulk.ended_at && age(bulk.ended_at)],
      ["progress", `${bulk.done} done, ${bulk.skipped} skipped, ${bulk.failed} failed of ${bulk.matched}`]
    ]),
    ...bulk.errors.map(({ id, message }) => `${id}: ${message}`),
    ...(bulk.files ?? []).map((id) => `file ${id}`)
  ].join("\n")

const action = Argument.Literals("action", ["cancel", "rerun", "redeliver", "delete"]).pipe(
  Argument.withDescription("The change of all that match")
)
const reason = Flag.withAlias(optionalText("reason", "Why, for the audit; canceled tasks have it as their error"), "r")
const wait = boolean("wait", "Wait until it has ended")

const readBulk = (token: Token, id: string) =>
  call(token, Views.BulkView, "GET", `/operator/bulk/${encodeURIComponent(id)}`)

const untilEnded = (token: Token, id: string) =>
  readBulk(token, id).pipe(
    Effect.repeat({ until: ({ state }) => state !== "running", schedule: Schedule.spaced(Duration.seconds(1)) })
  )

const begun = Effect.fnUntraced(
  function*(token: Token, started: typeof Views.StartedBulkView.Type, waits: boolean) {
    if (!waits) {
      return yield* print(started, ({ id, matched }) => `${matched} matched. Follow it with: bulk show ${id}`)
    }
    yield* progress(`${started.matched} matched: ${started.id}`)
    return yield* printResult(untilEnded(token, started.id), showBulk)
  }
)

const startBulk = Command.make("start", {
  action,
  internalToken,
  filter: {
    ...flagsOf({ ...taskFilter, ...ofSchedule }),
    origin: optionalText("origin", "With redeliver: only of this origin")
  },
  ids: optionalText("ids", "Only these ids, separated by commas"),
  reason,
  rate: optionalInt("rate", "Tasks or webhooks in a second (default: 50; at most 1000)"),
  dryRun: boolean("dry-run", "Only count what matches, and show the newest of it"),
  wait
}, ({ action, dryRun, filter, ids, internalToken, rate, reason, wait }) =>
  Effect.gen(function*() {
    const listed = Option.getOrUndefined(ids)?.split(",").map((id) => id.trim()).filter((id) => id !== "")
    const body = {
      action,
      filter: { ...Record.getSomes<string, string | number>(filter), ...(listed === undefined ? {} : { ids: listed }) },
      reason: Option.getOrNull(reason),
      rate: Option.getOrNull(rate),
      dry_run: dryRun
    }
    if (!dryRun) {
      return yield* begun(
        internalToken,
        yield* call(internalToken, Views.StartedBulkView, "POST", "/operator/bulk", body),
        wait
      )
    }
    yield* printResult(
      call(internalToken, Views.DryRunView, "POST", "/operator/bulk", body),
      ({ matched, sample }, { age, table }) =>
        `${
          table(
            ["ID", "STATUS", "CREATED"],
            sample.map((row) => ["id" in row ? row.id : row.uuid, row.status, age(row.created_at)]),
            "Nothing matches."
          )
        }\n${matched} match.`
    )
  }))

const listBulk = listing("list", "/operator/bulk", Views.BulkListView, {}, {
  ID: ({ id }) => id,
  ACTION: ({ action }) => action,
  STATE: ({ state }) => state,
  BY: ({ by }) => by,
  STARTED: ({ started_at: at }, { age }) => age(at),
  DONE: ({ done }) => String(done),
  SKIPPED: ({ skipped }) => String(skipped),
  FAILED: ({ failed }) => String(failed),
  MATCHED: ({ matched }) => String(matched)
}, "No bulk actions.")

const id = Argument.String("id").pipe(Argument.withDescription("Id of the action, as `bulk list` prints it"))

const showOne = Command.make(
  "show",
  { id, internalToken, wait },
  ({ id, internalToken, wait }) =>
    printResult(wait ? untilEnded(internalToken, id) : readBulk(internalToken, id), showBulk)
)

const stopBulk = Command.make(
  "stop",
  { id, internalToken },
  ({ id, internalToken }) =>
    printResult(call(internalToken, Views.BulkView, "POST", `/operator/bulk/${encodeURIComponent(id)}/stop`), showBulk)
)

const sub = Argument.String("sub").pipe(Argument.withDescription("The user, as in the `sub` claim of a token"))
const userPath = (sub: string, path = "") => `/operator/users/${encodeURIComponent(sub)}${path}`

/** The fields of an object, as in `2 active, 1 paused`. */
const inWords = (value: Schema.Json | undefined): string | null =>
  Predicate.isObject(value)
    ? Object.entries(value).flatMap(([name, field]) =>
      field === null || Predicate.isObject(field) ? [] : [`${String(field)} ${name.replaceAll("_", " ")}`]
    ).join(", ") || "none"
    : null

const showUser = Command.make("show", { sub, internalToken }, ({ internalToken, sub }) =>
  printResult(
    call(internalToken, Views.UserView, "GET", userPath(sub)),
    (user, { age, fields }) =>
      fields([
        ["user", user.sub],
        [
          "slots",
          `${user.slots.used} of ${user.slots.maximum}${user.limits.max_active_tasks === null ? "" : " (own limit)"}`
        ],
        ["tasks", `${user.waiting} waiting, ${user.running} running, ${user.interrupted} interrupted`],
        ["failures", `${user.failures} in seven days`],
        [
          "stored",
          `${user.stored_bytes.bytes} bytes of ${user.stored_bytes.tasks} tasks${
            user.stored_bytes.complete ? "" : ", and more"
          }`
        ],
        ["last revocation", user.last_revocation && age(user.last_revocation.revoked_at)],
        ["schedules", inWords(user.schedules)],
        ["usage of the month", inWords(user.usage)]
      ])
  ))

const limitUser = Command.make("limit", {
  sub,
  maximum: limit("maximum", "Active tasks that the user may have"),
  internalToken
}, ({ internalToken, maximum, sub }) =>
  printResult(
    call(internalToken, Views.LimitsView, "PUT", userPath(sub, "/limits"), { max_active_tasks: maximum }),
    (limits) =>
      limits.max_active_tasks === null
        ? "The user has the default limit."
        : `The user may have ${limits.max_active_tasks} active tasks.`
  ))

const exportUser = Command.make(
  "export",
  { sub, internalToken },
  ({ internalToken, sub }) => writeLines(internalToken, userPath(sub, "/export"))
)

const eraseUser = Command.make("erase", {
  sub,
  confirm: optionalText("confirm", "The user again: without it nothing is erased"),
  reason,
  wait,
  internalToken
}, ({ internalToken, reason, sub, wait }) =>
  Effect.gen(function*() {
    const body = { confirm: sub, reason: Option.getOrNull(reason) }
    yield* begun(
      internalToken,
      yield* call(internalToken, Views.StartedBulkView, "POST", userPath(sub, "/erase"), body),
      wait
    )
  })).pipe(
    Command.validate(({ confirm, sub }) =>
      usage(
        Option.getOrUndefined(confirm) !== sub
          && `Nothing was erased: repeat the user with --confirm to erase all that is kept of ${sub}`
      )
    )
  )

const audit = listing("audit", "/operator/audit", Views.AuditView, parameters.audit, {
  AT: ({ at }, { age }) => age(at),
  OPERATOR: ({ operator }) => operator,
  VIA: ({ via }) => via,
  ACTION: ({ action }) => action,
  OUTCOME: ({ outcome }) => outcome,
  TARGET: ({ target }) => target ?? "",
  USER: ({ sub }) => sub ?? "",
  REASON: ({ reason }) => reason ?? ""
}, "Nothing was done.")

export const actionCommands = [
  Command.make("bulk").pipe(
    Command.withSubcommands([
      startBulk.pipe(
        described(
          "Cancel, run again, delete or redeliver all that match",
          "bulk start rerun --status failed --fingerprint 'HTTP … from model' --dry-run"
        )
      ),
      listBulk.pipe(described("List the last 100 actions", "bulk list")),
      showOne.pipe(described("Show how far an action is", "bulk show $ID --wait")),
      stopBulk.pipe(described("Stop an action; what is done stays done", "bulk stop $ID"))
    ]),
    described("Change many tasks or webhooks at once (for operators)", "bulk start cancel --sub alice --dry-run")
  ),
  Command.make("user").pipe(
    Command.withSubcommands([
      showUser.pipe(described("Show a user as a whole, without what the tasks say", "user show alice")),
      limitUser.pipe(described("Set how many active tasks a user may have", "user limit alice 200")),
      exportUser.pipe(described("Print all that is kept of a user, as NDJSON", "user export alice > alice.ndjson")),
      eraseUser.pipe(described("Erase all that is kept of a user", "user erase alice --confirm alice --wait"))
    ]),
    described("Show, limit, export and erase one user (for operators)", "user show alice")
  ),
  audit.pipe(
    described("Search what operators did, and who canceled and revoked by RPC (for operators)", "audit --sub alice")
  )
] as const
