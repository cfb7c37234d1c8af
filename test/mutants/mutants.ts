/** Bugs of one line. Each names the suite that must find it: project, file, and part of the titles of its tests. */

export interface Mutant {
  readonly name: string
  readonly file: string
  /** Occurs once in the file. */
  readonly from: string
  readonly to: string
  readonly by: readonly [project: "unit" | "integration" | "slow", file: string, title?: string]
}

type Place = readonly [name: string, from: string, to: string, by: Mutant["by"]]

const kit = (title: string) => ["unit", "test/Spec.test.ts", title] as const
const node = (title: string) => ["integration", "test/integration/Spec.test.ts", title] as const
const store = (title: string) => ["integration", "test/integration/TaskStoreSql.test.ts", title] as const
const nodes = (title: string) => ["integration", "test/integration/CommitBatches.test.ts", title] as const
const unit = (file: string) => ["unit", `test/${file}`] as const
const integration = (file: string, title?: string) =>
  title === undefined
    ? ["integration", `test/integration/${file}`] as const
    : ["integration", `test/integration/${file}`, title] as const

const slow = (file: string, title: string) => ["slow", `test/integration/${file}`, title] as const

const withoutIssue = "moment of issue"

const byFile: Readonly<Record<string, ReadonlyArray<Place>>> = {
  "src/domain/Task.ts": [
    [
      "an interrupted task accepts Completed",
      `    ToolResultsSubmitted: "processing",`,
      `    ToolResultsSubmitted: "processing", Completed: "completed",`,
      kit("a trigger")
    ],
    [
      "a pending task can be canceled by its user",
      `    AcceptanceExpired: "failed",`,
      `    AcceptanceExpired: "failed", Canceled: "canceled",`,
      kit("a trigger")
    ],
    [
      "an acceptance that comes late fails a processing task",
      `  processing: {\n    Progressed`,
      `  processing: {\n    AcceptanceExpired: "failed",\n    Progressed`,
      unit("domain/Task.test.ts")
    ],
    [
      "no stop request after a time limit",
      `  TimeLimitExceeded: "time_limit_exceeded",`,
      "",
      kit("time limit")
    ],
    [
      "a run of a revoked token may complete",
      `new Set(["Accepted", "Progressed", "Interrupted", "Completed"])`,
      `new Set(["Accepted", "Progressed", "Interrupted"])`,
      unit("services/store/tasks/TaskStoreMemory.test.ts")
    ]
  ],
  "src/domain/TaskChange.ts": [
    ["the reason of a cancel is lost", "      return event.reason\n", "      return null\n", kit("a trigger")],
    [
      "partial output is lost when a time limit ends the task",
      `turn: "turn" in event ? event.turn : null,`,
      `turn: "turn" in event ? event.turn : event._tag === "TimeLimitExceeded" ? ("null" as never) : null,`,
      kit("partial output")
    ]
  ],
  "src/services/store/schema/Functions.ts": [
    [
      "creates of one user do not wait for each other",
      "  ${lockUsers};\n  IF",
      "  PERFORM 1;\n  IF",
      nodes("creates of one user")
    ],
    [
      "a sixth active task",
      "ELSIF active >= maxima[n]",
      "ELSIF active > maxima[n]",
      store("limit of active tasks")
    ],
    [
      "interrupted tasks need no slot",
      "SELECT FROM tasks WHERE sub = p_sub[n] AND",
      "SELECT FROM tasks WHERE sub = p_sub[n] AND status <> 'interrupted' AND",
      node("5 active tasks")
    ],
    [
      "a key answers any request",
      "CASE WHEN fingerprints[n] = p_fingerprint[n] THEN",
      "CASE WHEN true THEN",
      store("key")
    ],
    [
      "a key never expires",
      ") AS kept WHERE expires_at > p_created_at[n]",
      ") AS kept WHERE true OR expires_at > p_created_at[n]",
      store("key")
    ],
    [
      "events of an earlier run count",
      "WHEN t.run_id <> p_run_id[n] THEN 'Superseded'",
      "WHEN false THEN 'Superseded'",
      store("follows the table")
    ],
    [
      "any event moves any task",
      "<> ALL ('{${transitions.join()}}') THEN 'NoEffect'",
      "= ANY ('{}'::text[]) THEN 'NoEffect'",
      store("follows the table")
    ],
    [
      "an event of the core counts twice",
      "      WHEN was_recorded THEN 'NoEffect'\n",
      "",
      store("follows the table")
    ],
    [
      "a revocation of a user spares a task whose token has no iat",
      "AND (t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before) LIMIT 1)",
      "AND t.token_issued_at < r.issued_before LIMIT 1)",
      store(withoutIssue)
    ],
    [
      "a revoked token is not looked up when an event is written",
      "SELECT true FROM token_revocations r WHERE r.token_id = t.token_id LIMIT 1",
      "SELECT true FROM token_revocations r WHERE r.token_id = t.token_id AND false LIMIT 1",
      store("follows the table")
    ],
    [
      "a later partial turn does not replace an earlier one",
      "ON CONFLICT (task_uuid) DO UPDATE SET turn = EXCLUDED.turn;",
      "ON CONFLICT (task_uuid) DO NOTHING;",
      store("follows the table")
    ],
    [
      "the user's token is kept after the end",
      "user_token = CASE WHEN ends[n] THEN ''",
      "user_token = CASE WHEN false THEN ''",
      nodes("racing events")
    ],
    [
      "no stop request is stored",
      "AND ${isOneOf(\"p_type[n]\", stopping)}\n    ON CONFLICT",
      "AND false\n    ON CONFLICT",
      nodes("racing events")
    ],
    [
      "no delivery is stored",
      "      AND t.callback_url IS NOT NULL;",
      "      AND false;",
      nodes("racing events")
    ]
  ],
  "src/services/store/schema/QueueFunctions.ts": [
    [
      "the acceptance clock restarts at each attempt",
      "    AND t.acceptance_deadline_at IS NULL AND t.room",
      "    AND t.room",
      store("acceptance clock")
    ],
    [
      "a run that goes back into the queue keeps its acceptance clock",
      "SET room = 'waiting', acceptance_deadline_at = NULL,",
      "SET room = 'waiting',",
      store("puts runs back")
    ],
    [
      "a user's new run comes before the users that wait",
      "1 + (SELECT max(w.ticket) FROM waiting_runs w WHERE w.sub = p_sub[n] AND w.class = p_class[n])",
      "0",
      store("take turns")
    ],
    [
      "one run more than CORE_RUNS is admitted",
      "free := least(free, p_core_runs - total);",
      "free := least(free, p_core_runs - total + 1);",
      store("limit of all runs")
    ],
    [
      "a new task takes one place more than CORE_RUNS",
      "IF total >= p_core_runs OR own >= most THEN",
      "IF total > p_core_runs OR own >= most THEN",
      store("limit of all runs")
    ],
    [
      "a paused assistant gets new runs",
      "coalesce(array_agg(assistant_id) FILTER (WHERE is_paused), '{}')",
      "'{}'",
      store("operators set")
    ],
    [
      "new runs come before resumed ones",
      "WHEN class = ${resumedClass} THEN 1000000",
      "WHEN class = ${resumedClass} THEN -1",
      store("resumed runs first")
    ],
    [
      "a low priority starves",
      "ELSE greatest(0, floor(extract(epoch",
      "ELSE 0 * greatest(0, floor(extract(epoch",
      store("lets none starve")
    ]
  ],
  "src/services/store/tasks/TaskWritesSql.ts": [
    [
      "a run that has reported is claimed as silent",
      "AND last_event_at <= ${moment(\"asked.last_event\")}",
      "",
      integration("TaskStoreSql.test.ts", "claims a silent run once")
    ],
    [
      "cancel-interrupted cancels tasks of all users",
      "(SELECT * FROM tasks WHERE sub = $1 AND",
      "(SELECT * FROM tasks WHERE ($1 = '' OR true) AND",
      node("canceled together")
    ]
  ],
  "src/services/store/tasks/TaskStoreSql.ts": [
    [
      "a revocation of a user does not end processing tasks whose token has no iat",
      "(t.token_issued_at IS NULL OR t.token_issued_at < r.issued_before)",
      "(t.token_issued_at < r.issued_before)",
      store(withoutIssue)
    ],
    [
      "an acceptance deadline that passed is not found",
      "WHERE status = 'pending' AND acceptance_deadline_at <=",
      "WHERE status = 'processing' AND acceptance_deadline_at <=",
      store("")
    ],
    [
      "retention skips failed tasks",
      "FROM tasks WHERE completed_at <= ${moment(\"@before\")} AND completed_at",
      "FROM tasks WHERE status <> 'failed' AND completed_at <= ${moment(\"@before\")} AND completed_at",
      node("retention")
    ],
    [
      "retention deletes tasks whose webhook is pending",
      "AND NOT EXISTS (SELECT FROM webhook_deliveries WHERE task_uuid = uuid AND due_at IS NOT NULL)",
      "",
      store("while a webhook of it is pending")
    ],
    [
      "events of a deleted task stay",
      "DELETE FROM task_events USING ended WHERE task_uuid = ended.uuid",
      "DELETE FROM task_events USING ended WHERE task_uuid = ended.uuid AND false",
      store("deletes tasks")
    ]
  ],
  "src/services/store/tasks/ListStatement.ts": [
    [
      "a list shows tasks of other users",
      `rows: "SELECT created_at, uuid, status FROM tasks WHERE sub = @sub",`,
      `rows: "SELECT created_at, uuid, status FROM tasks WHERE (@sub::text = '' OR true)",`,
      node("tasks of their own")
    ]
  ],
  "src/services/store/revocations/RevocationRepositorySql.ts": [
    [
      "a lookup of a token without iat finds no revocation of its user",
      "($3::float8 IS NULL OR to_timestamp($3::float8) < issued_before)",
      "(to_timestamp($3::float8) < issued_before)",
      store(withoutIssue)
    ],
    [
      "a revocation is deleted when its token expires, while tasks of it may run",
      "count(deleteExpired, { before: plus(at, Duration.negate(keptAfterExpiry)), limit })",
      "count(deleteExpired, { before: at, limit })",
      store("")
    ]
  ],
  "src/services/store/webhooks/WebhookClaim.ts": [
    [
      "a claimed delivery is due again immediately",
      "+ make_interval(secs => (${leases})[least(d.attempts + 1, array_length(${leases}, 1))])",
      "+ make_interval(secs => 0 * (${leases})[1])",
      store("")
    ],
    ["attempts are not counted", "SET attempts = d.attempts + 1,", "SET attempts = greatest(d.attempts, 1),", store("")]
  ],
  "src/services/store/webhooks/WebhookStatements.ts": [
    [
      "a webhook shows the turn of a later moment",
      "export const turnOf = `coalesce(d.turn, u.turn)`",
      "export const turnOf = `coalesce(u.turn, d.turn)`",
      store("")
    ],
    ["a failure outweighs a success", "error IS NULL DESC, attempt DESC", "error IS NULL ASC, attempt DESC", store("")]
  ],
  "src/domain/Deadline.ts": [
    [
      "the later deadline counts",
      "acceptanceDeadline < deadline ? acceptanceDeadline : deadline",
      "acceptanceDeadline > deadline ? acceptanceDeadline : deadline",
      kit("does not confirm")
    ]
  ],
  "src/services/tasks/Create.ts": [
    [
      "a time limit is two seconds too long",
      "deadline: plus(createdAt, Duration.seconds(maxExecutionTime)),",
      "deadline: plus(createdAt, Duration.seconds(maxExecutionTime + 2)),",
      kit("counts from creation")
    ]
  ],
  "src/services/tasks/Tasks.ts": [
    [
      "tool results need not fit the calls",
      "if (problems.length > 0) return",
      "if (problems.length > 100) return",
      kit("on the results")
    ],
    [
      "a task can be read by every user",
      "if (task.sub !== principal.sub) return yield*",
      "if (task.sub === \"\") return yield*",
      kit("tasks of their own")
    ]
  ],
  "src/services/settings/Settings.ts": [
    ["acceptance within 25 s", `default: "30 seconds",`, `default: "25 seconds",`, kit("does not confirm")],
    ["four active tasks", `default: "5",`, `default: "4",`, kit("5 active tasks")],
    ["retention of three days", `default: "30 days",`, `default: "3 days",`, kit("retention")]
  ],
  "src/domain/Limits.ts": [
    [
      "a day and a second",
      "export const maxExecutionTime = 86_400",
      "export const maxExecutionTime = 86_401",
      kit("limits")
    ],
    ["pages of 101", "maximum: 100 } as const", "maximum: 101 } as const", kit("page and per_page")],
    ["a reason of 1001 characters", "cancelReasonLength = 1000", "cancelReasonLength = 1001", kit("reason of a cancel")]
  ],
  "src/domain/ClockOffset.ts": [
    [
      "the offset of a database that answers slowly is taken",
      "return wasSet || sample.uncertainty <= uncertainty ? sample : known",
      "return wasSet || sample.uncertainty >= uncertainty ? sample : known",
      unit("domain/ClockOffset.test.ts")
    ],
    [
      "the round trip counts as the offset",
      "offset: remote - (sentAt + receivedAt) / 2,",
      "offset: remote - sentAt,",
      unit("domain/ClockOffset.test.ts")
    ]
  ],
  "src/domain/Silence.ts": [
    [
      "a silent run is dispatched at a constant rate",
      "Math.min(declared * 2 ** redispatches, maxPause)",
      "Math.min(declared, maxPause)",
      unit("services/actors/SilentRuns.test.ts")
    ]
  ],
  "src/services/queue/CoreBusy.ts": [
    [
      "a core without room gets more runs than it has taken",
      "if (!isFitting) return undefined",
      "",
      unit("services/queue/CoreBusy.test.ts")
    ],
    [
      "Retry-After of the core does not count",
      "longestPause), asked(retryAfter))",
      "longestPause), Duration.zero)",
      unit("services/queue/CoreBusy.test.ts")
    ],
    [
      "a core without room is probed each second",
      "2 ** refusals",
      "1",
      unit("services/queue/CoreBusy.test.ts")
    ],
    [
      "a Retry-After of a day holds the queue for a day",
      "Duration.min(retryAfter ?? Duration.zero, longestRetryAfter)",
      "retryAfter ?? Duration.zero",
      unit("services/queue/CoreBusy.test.ts")
    ]
  ],
  "src/services/actors/Admissions.ts": [
    [
      "an admission spins on rows that are locked",
      "if (heads.length === 0) return retryPause",
      "if (heads.length === 0) return Duration.zero",
      unit("services/actors/Admissions.test.ts")
    ]
  ],
  "src/services/actors/Dispatch.ts": [
    [
      "thousands of long requests wait in memory",
      "(!isAtOnce && !isKept(run.request))",
      "false",
      unit("services/actors/DispatchLanes.test.ts")
    ],
    [
      "new runs wait behind recovered ones",
      `status === "pending" ? "recoveredPending" : "recovered"`,
      `status === "pending" ? "new" : "recovered"`,
      unit("services/actors/Recovery.test.ts")
    ]
  ],
  "src/services/usage/UsageSql.ts": [
    [
      "the wait in the queue is the time of a core",
      "next_at - coalesce(started_at, occurred_at)",
      "next_at - occurred_at",
      integration("usage/UsageSql.test.ts", "wait in the queue")
    ]
  ],
  "src/services/actors/Decision.ts": [
    [
      "time without the database counts as silence",
      "Math.max(lastEventAt ?? 0, from)",
      "(lastEventAt ?? 0)",
      unit("services/actors/Decision.test.ts")
    ]
  ],
  "src/domain/DispatchRetry.ts": [
    [
      "a core without room fails the task",
      "status === 408 || status === 429 || (status >= 500",
      "status === 408 || (status >= 500",
      node("answers 429")
    ]
  ],
  "src/services/tokens/TokenVerifier.ts": [
    [
      "a cached token never expires",
      "if (known.expiresAt <= nowSeconds) return undefined",
      "",
      unit("services/tokens/TokenVerifier.test.ts")
    ],
    [
      "a token is valid for a minute after its expiry",
      "isMoment(exp) && exp > nowSeconds ?",
      "isMoment(exp) && exp + 60 > nowSeconds ?",
      unit("services/tokens/TokenVerifier.test.ts")
    ],
    [
      "a token may have been issued in the future",
      "iat <= nowSeconds + maxSkew)) return",
      "iat <= nowSeconds + 1e10)) return",
      kit("401: a token")
    ]
  ],
  "src/services/tokens/TokenRevocations.ts": [
    [
      "old knowledge of revocations counts for ever",
      "monotonicMillisOf(clock) < syncedAt + maxAge ?",
      "monotonicMillisOf(clock) < Infinity ?",
      unit("services/tokens/Revocation.test.ts")
    ]
  ],
  "src/services/tokens/Secrets.ts": [
    [
      "a session of operators opens without its purpose",
      `new Set(["callback-secret", "user-token"])`,
      `new Set(["callback-secret", "user-token", "operator-session"])`,
      unit("services/tokens/Secrets.test.ts")
    ]
  ],
  "src/http/handlers/Authorization.ts": [
    [
      "any token is an internal one",
      "indexIn(tokens, credential) >= 0",
      "credential !== \"\"",
      kit("internal endpoint")
    ],
    [
      "requests do not ask for revocations",
      "Effect.tap(({ principal }) => revocations.check(principal)),",
      "",
      kit("401")
    ]
  ],
  "src/domain/Webhook.ts": [
    [
      "no webhook on interrupted",
      `isTerminal(status) || status === "interrupted"`,
      "isTerminal(status)",
      kit("signed over its bytes")
    ],
    ["a redirect is a success", "status >= 200 && status < 300", "status >= 200 && status < 400", kit("five attempts")],
    ["a delay of 45 s", `Schedule.duration("60 seconds")`, `Schedule.duration("45 seconds")`, kit("five attempts")],
    ["a delay may be shorter", "1.01 + share / 25", "0.9 + share / 25", kit("five attempts")]
  ],
  "src/services/webhooks/WebhookHeaders.ts": [
    ["X-Signature covers more than the body", `[body], "hex")`, `[second, body], "hex")`, kit("signed over its bytes")]
  ],
  "src/runtime/webhooks/AddressGuard.ts": [
    ["webhooks reach the metadata service", `  "169.254.0.0/16",\n`, "", unit("runtime/webhooks/AddressGuard.test.ts")],
    [
      "webhooks reach private addresses",
      "!contains(special, address)",
      `(!contains(special, address) || address.startsWith("10."))`,
      unit("runtime/webhooks/AddressGuard.test.ts")
    ]
  ],
  "src/services/files/AssistantBackend.ts": [
    [
      "a file above the limit streams through",
      "return size > Limits.fileBytes ? fail",
      "return size > Infinity ? fail",
      unit("services/files/AssistantBackend.test.ts")
    ],
    [
      "a success before the last byte counts",
      `Effect.filterOrFail(() => state.step === "closed",`,
      `Effect.filterOrFail(() => state.step !== "opening",`,
      slow("Uploads.test.ts", "before the end of the file")
    ]
  ],
  "src/domain/FileFormat.ts": [
    [
      "any extension is a format",
      "return format !== undefined && Object.hasOwn(formats, format) ? format : undefined",
      "return format",
      kit("22 formats")
    ],
    ["a program may be a picture", `  ascii(0, "\\x7fELF"),\n`, "", unit("domain/FileFormat.test.ts")]
  ],
  "src/runtime/deployment/prometheus/alerts.yaml": [
    [
      "an alert fires when all is well",
      "max(task_deadline_overdue_seconds) > 15",
      "max(task_deadline_overdue_seconds) < 15",
      unit("runtime/deployment/Prometheus.test.ts")
    ],
    [
      "an alert counts what succeeds",
      `outcome!~"accepted|busy"`,
      `outcome=~"accepted|busy"`,
      unit("runtime/deployment/Prometheus.test.ts")
    ]
  ],
  "src/runtime/node/HttpListener.ts": [
    [
      "a node that stops cuts the requests that it carries out",
      "gracefulShutdownTimeout: Duration.seconds(15),",
      "gracefulShutdownTimeout: Duration.zero,",
      slow("Restart.test.ts", "finishes requests")
    ]
  ],
  "src/runtime/postgres/Database.ts": [
    [
      "statements have no time-out",
      `statement_timeout: "10000"`,
      `statement_timeout: "0"`,
      integration("SessionLimits.test.ts")
    ],
    [
      "waits for locks have no time-out",
      `lock_timeout: "5000"`,
      `lock_timeout: "0"`,
      integration("SessionLimits.test.ts")
    ],
    [
      "idle transactions have no time-out",
      `idle_in_transaction_session_timeout: "15000"`,
      `idle_in_transaction_session_timeout: "0"`,
      integration("SessionLimits.test.ts")
    ]
  ]
}

export const mutants: ReadonlyArray<Mutant> = Object.entries(byFile).flatMap(([file, places]) =>
  places.map(([name, from, to, by]) => ({ name, file, from, to, by }))
)
