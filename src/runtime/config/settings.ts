/** The names, defaults and meanings of all settings. `npm run docs` writes the table in src/runtime/README.md from them. */
import * as Watchdog from "../node/Watchdog.ts"
import * as TelemetrySettings from "../telemetry/TelemetrySettings.ts"

interface Setting {
  readonly names: ReadonlyArray<string>
  readonly default: string
  readonly meaning: string
}

export const settings: ReadonlyArray<Setting> = [
  { names: ["HOST", "PORT"], default: "`127.0.0.1`, `3000`", meaning: "where REST, RPC, docs and health listen" },
  {
    names: ["INTERNAL_PORT"],
    default: "unset: `PORT`",
    meaning: "port of `/internal/*` and `/rpc`, which `PORT` then no longer serves; both serve `/healthz` and `/readyz`"
  },
  {
    names: ["PUBLIC_URL"],
    default: "`http://HOST:PORT`",
    meaning:
      "the external base URL, to which the core reports (with `INTERNAL_PORT` it has to reach that port); a core served alone sends events to its origin only"
  },
  {
    names: ["CORS_ORIGINS"],
    default: "none",
    meaning: "comma-separated list of the origins of web pages that may call the service, or `*`"
  },
  {
    names: ["CONSOLE"],
    default: "`users,operators`; in production `off`",
    meaning: "audiences of the page at `/console`; `off`: there is no such page"
  },
  {
    names: ["FACADES"],
    default: "`openai`; in production `off`",
    meaning: "protocols of other systems that are served: `openai` (the Responses API at `/v1`), or `off`"
  },
  {
    names: ["FACADE_MODELS"],
    default: "none",
    meaning:
      "comma-separated list of models as `name=assistant[:llm_model[:image_generator]]`, by their ids; `assistant-7` and `7` always mean assistant 7"
  },
  {
    names: ["FACADE_LENIENT"],
    default: "`false`",
    meaning: "`true`: a façade ignores request fields that it does not support and that would change the result"
  },
  {
    names: ["FACADE_TIME_LIMIT"],
    default: "`1 hour`",
    meaning: "default time limit of tasks that a façade creates"
  },
  {
    names: ["DATABASE_URL"],
    default: "embedded Postgres",
    meaning: "URL of a Postgres 14 or later, or of a pooler; parameters as in libpq, see deployment/README.md"
  },
  {
    names: ["DATABASE_DIRECT_URL"],
    default: "`DATABASE_URL`",
    meaning:
      "URL of the same database without a pooler, for locks, LISTEN and migrations; a cluster behind a transaction pooler requires it"
  },
  {
    names: ["DATA_DIR"],
    default: "`.data`",
    meaning: "directory of the embedded database, demo storage and development keys"
  },
  {
    names: ["JWT_SECRET", "JWT_PUBLIC_KEY", "JWT_JWKS_URL"],
    default: "a development key",
    meaning: "exactly one of: HS256 secret of 32 bytes or more, PEM or JWK public key, JWKS URL"
  },
  {
    names: ["JWT_ALGORITHMS", "JWT_ISSUER", "JWT_AUDIENCE"],
    default: "by key type, unset, unset",
    meaning: "accepted algorithms as a comma-separated list; required issuer; required audience"
  },
  { names: ["CORE_URL"], default: "built-in core", meaning: "base URL of the processing core" },
  {
    names: ["CORE_TOKEN"],
    default: "generated; in production unset",
    meaning: "bearer token sent to the core; a core served alone accepts no other"
  },
  {
    names: ["INTERNAL_TOKENS"],
    default: "generated",
    meaning:
      "comma-separated list of bearer tokens accepted on `/internal/*` and `/rpc`, for rotation; 32 characters or more in production"
  },
  {
    names: ["OPERATOR_READ_TOKENS"],
    default: "none",
    meaning: "comma-separated list of bearer tokens that may read the operator interface and change nothing"
  },
  {
    names: ["OPERATOR_CONTENT"],
    default: "`off`; with the embedded Postgres `on`",
    meaning: "whether operators may see what tasks say: turns and tool arguments"
  },
  {
    names: ["OPERATOR_SESSION"],
    default: "`8 hours`",
    meaning: "longest life of an operator's session in the console; it also ends after an hour without a request"
  },
  { names: ["ASSISTANT_BACKEND_URL"], default: "built-in demo backend", meaning: "base URL of the assistant backend" },
  {
    names: ["ENCRYPTION_KEY"],
    default: "generated",
    meaning:
      "32 bytes in base64 that encrypt secrets at rest; a comma-separated list for rotation, the first one encrypts"
  },
  {
    names: ["WEBHOOK_ALLOW_PRIVATE"],
    default: "`false`; with the embedded Postgres `true`",
    meaning: "comma-separated list of private hosts and CIDRs that webhooks may reach; `true` allows loopback"
  },
  {
    names: ["WEBHOOK_TIMEOUT"],
    default: "`15 seconds`",
    meaning: "timeout of one webhook attempt: DNS, connect, TLS and response together"
  },
  {
    names: ["ASSISTANTS_FILE"],
    default: "the demo assistants",
    meaning: "YAML or JSON file of the built-in backend's assistants; reloaded when it changes"
  },
  {
    names: ["OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"],
    default: "unset",
    meaning: "model of the built-in backend's assistant 10; ignored with `ASSISTANTS_FILE`"
  },
  {
    names: ["TRANSCRIPTION_URL", "TRANSCRIPTION_API_KEY", "TRANSCRIPTION_MODEL"],
    default: "unset, unset, `whisper-1`",
    meaning: "speech-to-text service of the built-in backend: base URL without `/audio/transcriptions`, key, model"
  },
  {
    names: ["STORAGE_QUOTA"],
    default: "`10 GiB`",
    meaning: "maximum total size of one user's files in the built-in backend"
  },
  { names: ["ACCEPTANCE_TIMEOUT"], default: "`30 seconds`", meaning: "how long the core may take to accept a task" },
  { names: ["MAX_ACTIVE_TASKS"], default: "`5`", meaning: "maximum active tasks of one user" },
  { names: ["RETENTION"], default: "`30 days`", meaning: "how long ended tasks are kept" },
  {
    names: ["CLUSTER"],
    default: "`off`",
    meaning:
      "`on`: this process is a node of a cluster on the same Postgres, whose nodes divide the tasks among themselves"
  },
  {
    names: ["CLUSTER_HOST", "CLUSTER_PORT"],
    default: "`127.0.0.1`, `34431`",
    meaning: "address where this node listens for the others; it has no authentication, so keep it on a private network"
  },
  { names: ["DATABASE_CONNECTIONS"], default: "`10`", meaning: "size of the connection pool" },
  ...Watchdog.settings,
  ...TelemetrySettings.settings,
  { names: ["LOG_LEVEL"], default: "`Info`", meaning: "`Debug`, `Info`, `Warn` or `Error`" },
  {
    names: ["NODE_ENV"],
    default: "unset",
    meaning:
      "`production`: nothing is embedded or generated, secrets that are easy to guess are refused, and logs are JSON lines"
  }
]

const known = new Set([...settings.flatMap(({ names }) => names), "TASK_SERVICE_URL", "TASK_SERVICE_TOKEN"])

/** The number of inserted, removed and replaced characters between two texts (Levenshtein). */
const distance = (one: string, other: string): number => {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index)
  for (const [above, char] of [...one].entries()) {
    const next = [above + 1]
    for (const [left, otherChar] of [...other].entries()) {
      const replaced = (row[left] ?? 0) + (char === otherChar ? 0 : 1)
      next.push(Math.min(replaced, (row[left + 1] ?? 0) + 1, (next[left] ?? 0) + 1))
    }
    row = next
  }
  return row[other.length] ?? 0
}

/** The setting that an unknown variable resembles: one difference in six characters, two at most. */
const nearest = (name: string) =>
  name.length < 6
    ? undefined
    : [...known].find((other) => {
      const limit = Math.min(2, Math.floor(name.length / 6))
      return Math.abs(other.length - name.length) <= limit && distance(name, other) <= limit
    })

/** A warning for each variable that is no setting but resembles one. */
export const misspelled = (environment: Readonly<Record<string, string>>): ReadonlyArray<string> =>
  Object.keys(environment).flatMap((name) => {
    const meant = known.has(name) ? undefined : nearest(name)
    return meant === undefined ? [] : [`${name} is not a setting: did you mean ${meant}?`]
  })
