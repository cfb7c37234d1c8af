/** Shared by all commands: the service's address, the tokens, and the output format. */
import { Config, Console, Effect, Option, Predicate, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import * as fs from "node:fs"
import * as path from "node:path"
import { ApiError, ValidationError } from "../../http/client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import * as Setting from "../../services/settings/Setting.ts"
import { rootCauseMessage } from "../../services/telemetry/RootCause.ts"
import * as TokenKeys from "../config/TokenKeys.ts"
import { boolean, text } from "./Flags.ts"
import * as Output from "./Output.ts"

export const root = Command.make("async-task-service").pipe(
  Command.withSharedFlags({
    url: text("url", "Base URL of the service (TASK_SERVICE_URL; default: http://127.0.0.1:PORT or port 3000)").pipe(
      Flag.filter((url) => URL.canParse(url) && /^https?:/.test(url), () => "an http or https URL"),
      Flag.withFallbackConfig(Config.String("TASK_SERVICE_URL")),
      Flag.withFallbackConfig(Config.map(Config.String("PORT"), (port) => `http://127.0.0.1:${port}`)),
      Flag.withDefault("http://127.0.0.1:3000")
    ),
    token: Flag.Redacted("token").pipe(
      Flag.withDescription(
        "JWT of the user (TASK_SERVICE_TOKEN; default: a development token, if the key is available)"
      ),
      Flag.withFallbackConfig(Config.Redacted("TASK_SERVICE_TOKEN")),
      Flag.optional
    ),
    json: boolean("json", "Print JSON, for scripts"),
    noColor: boolean("no-color", "Print no colors, as with NO_COLOR or when the output is no terminal")
  }),
  Command.withDescription("Run AI assistant tasks in the background: the service and a client for it")
)

/** Adds a description and an example to a command or a group. */
export const described = (description: string, example: string) =>
<Name extends string, Input, Context, E, R>(
  command: Command.Command<Name, Input, Context, E, R>
): Command.Command<Name, Input, Context, E, R> =>
  command.pipe(
    Command.withDescription(description),
    Command.withExamples([{ command: `async-task-service ${example}` }])
  )

/** The variables of this process. */
export const environment = Effect.sync(() => Setting.clean(process.env))

/** The base URL of the internal routes: INTERNAL_PORT of this machine, unless another URL is given. */
export const internalUrl = Effect.gen(function*() {
  const { url } = yield* root
  const { INTERNAL_PORT, PORT = "3000" } = yield* environment
  const isInternal = INTERNAL_PORT !== undefined && !Setting.isServiceLink(INTERNAL_PORT)
  return isInternal && url === `http://127.0.0.1:${PORT}` ? `http://127.0.0.1:${INTERNAL_PORT}` : url
})

/** A failure that is reported to the user without a stack trace. `errors` maps a field to its messages. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  message: Schema.String,
  code: Schema.optionalKey(Schema.NullOr(Schema.String)),
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String)))
}) {}

export const failed = (message: string) => new CommandFailed({ message })

/** The message of an error, followed by the messages of its causes. */
const messagesOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (error instanceof AggregateError) return rootCauseMessage(error)
  const cause = error.cause instanceof Error ? messagesOf(error.cause) : undefined
  return cause === undefined || cause === "" ? error.message : `${error.message}: ${cause}`
}

export const asFailure = (error: unknown) =>
  error instanceof ApiError
    ? new CommandFailed({
      message: messagesOf(error),
      code: error.code,
      ...(error instanceof ValidationError ? { errors: error.errors } : {})
    })
    : failed(messagesOf(error))

/** A secret that the service generated into DATA_DIR in development mode, if it has run on this machine. */
const generatedSecret = (name: string): Effect.Effect<Option.Option<Redacted.Redacted>> =>
  Effect.map(environment, ({ DATA_DIR = ".data" }) => {
    const file = path.join(DATA_DIR, name)
    return fs.existsSync(file) ? Option.some(Redacted.make(fs.readFileSync(file, "utf8").trim())) : Option.none()
  })

/** The HS256 key of development tokens: the first of JWT_SECRET, or the generated one. */
export const signingSecret = Effect.flatMap(environment, ({ JWT_SECRET }) =>
  JWT_SECRET === undefined
    ? generatedSecret("jwt-secret")
    : Effect.succeedSome(Redacted.make(TokenKeys.secretsOf(JWT_SECRET)[0])))

/** Mints a token that the service of these variables accepts. */
export const mintToken = Effect.fnUntraced(function*(options: TokenKeys.MintOptions) {
  const secret = yield* signingSecret
  if (Option.isNone(secret)) return yield* failed("No token: pass --token or set TASK_SERVICE_TOKEN")
  const { JWT_ALGORITHMS = "HS256", JWT_AUDIENCE, JWT_ISSUER } = yield* environment
  const rules = { algorithms: Setting.commaList(JWT_ALGORITHMS), audience: JWT_AUDIENCE, issuer: JWT_ISSUER }
  return yield* TokenKeys.mint(secret.value, { ...options, rules })
})

export const findToken = (given: Option.Option<Redacted.Redacted>) =>
  Option.isSome(given) ? Effect.succeed(Redacted.value(given.value)) : mintToken({})

export const internalToken = Flag.Redacted("internal-token").pipe(
  Flag.withDescription("Bearer token of the internal interface (default: the first of INTERNAL_TOKENS)"),
  Flag.withFallbackConfig(Config.Redacted("INTERNAL_TOKENS")),
  Flag.optional
)

/** The first token of the given list, or the one that the service generated in development mode. */
export const findInternalToken = Effect.fnUntraced(function*(given: Option.Option<Redacted.Redacted>) {
  const found = Option.isSome(given) ? given : yield* generatedSecret("internal-token")
  if (Option.isNone(found)) return yield* failed("No internal token: pass --internal-token or set INTERNAL_TOKENS")
  return Redacted.make(Redacted.value(found.value).split(",")[0]?.trim() ?? "")
})

/** Prints progress to stderr, so that stdout contains only the result. */
export const note = (text: string) => Console.error(text)

/** Prints what only people read: with `--json` also stderr is for programs. */
export const progress = (text: string) => Effect.flatMap(root, ({ json }) => json ? Effect.void : note(text))

/** Prints a result, as JSON with `--json` and with `render` otherwise. */
export const print = <A>(result: A, render: (result: A, output: Output.Output) => string) =>
  Effect.gen(function*() {
    const { json } = yield* root
    yield* Console.log(json ? JSON.stringify(result) : render(result, yield* Output.current))
  })

/** Prints the result of a call. */
export const printResult = <A, E, R>(
  call: Effect.Effect<A, E, R>,
  render: (result: A, output: Output.Output) => string
) => Effect.flatMap(call, (result) => print(result, render))

/** A client of the service that acts for the user. */
export const connect = Effect.gen(function*() {
  const { token, url } = yield* root
  const found = yield* findToken(token)
  return yield* Effect.try({
    try: () => new TaskServiceClient({ baseUrl: url, token: found }),
    // A wrong --url is a usage error.
    catch: () => failed("TASK_SERVICE_URL must be an http or https URL")
  })
})

/** Calls the service as the user. */
export const call = <A>(send: (client: TaskServiceClient, signal: AbortSignal) => PromiseLike<A>) =>
  Effect.flatMap(connect, (client) => Effect.tryPromise({ try: (signal) => send(client, signal), catch: asFailure }))

/** The texts in the output of a turn, one on each line. Other kinds of output are omitted. */
export const textOf = (turn: unknown): string => {
  const output = Predicate.hasProperty(turn, "output") && Array.isArray(turn.output) ? turn.output : []
  return output.flatMap((item) => Predicate.hasProperty(item, "text") ? [String(item.text)] : []).join("\n")
}
