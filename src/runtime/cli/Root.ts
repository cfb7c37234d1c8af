/** What every command shares: where the service is, who asks, and how answers are printed. */
import { Config, Console, Effect, Option, Predicate, Redacted, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import * as fs from "node:fs"
import * as path from "node:path"
import { ValidationError } from "../../http/client/promise/ApiErrors.ts"
import { TaskServiceClient } from "../../http/client/promise/TaskServiceClient.ts"
import * as Banner from "../Banner.ts"

export const root = Command.make("async-task-service").pipe(
  Command.withSharedFlags({
    url: Flag.String("url").pipe(
      Flag.withDescription("Base URL of the service (TASK_SERVICE_URL); else PORT of this machine, or 3000"),
      Flag.withFallbackConfig(Config.String("TASK_SERVICE_URL")),
      Flag.withFallbackConfig(Config.map(Config.String("PORT"), (port) => `http://127.0.0.1:${port}`)),
      Flag.withDefault("http://127.0.0.1:3000")
    ),
    token: Flag.Redacted("token").pipe(
      Flag.withDescription("The user's JWT (TASK_SERVICE_TOKEN); a development token where the key is at hand"),
      Flag.withFallbackConfig(Config.Redacted("TASK_SERVICE_TOKEN")),
      Flag.optional
    ),
    json: Flag.Boolean("json").pipe(Flag.withDescription("Print JSON, for programs"), Flag.withDefault(false))
  }),
  Command.withDescription("Runs AI-assistant work in the background: the service, and a client of it")
)

/** What went wrong, in words for whoever typed the command. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  message: Schema.String,
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String)))
}) {}

export const failed = (message: string) => new CommandFailed({ message })

/** The words of an error and of what is behind it. */
const wordsOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause instanceof Error ? wordsOf(error.cause) : undefined
  return cause === undefined || cause === "" ? error.message : `${error.message}: ${cause}`
}

export const asFailure = (error: unknown) =>
  error instanceof ValidationError
    ? new CommandFailed({ message: error.message, errors: error.errors })
    : failed(wordsOf(error))

/** What the development mode keeps in DATA_DIR, if it has run on this machine. */
export const keptSecret = (name: string): Effect.Effect<Option.Option<Redacted.Redacted>> =>
  Effect.sync(() => {
    const file = path.join(process.env["DATA_DIR"] || ".data", name)
    return fs.existsSync(file) ? Option.some(Redacted.make(fs.readFileSync(file, "utf8").trim())) : Option.none()
  })

export const findToken = Effect.fnUntraced(function*(given: Option.Option<Redacted.Redacted>) {
  if (Option.isSome(given)) return Redacted.value(given.value)
  const secret = process.env["JWT_SECRET"]
  const kept = secret ? Option.some(Redacted.make(secret)) : yield* keptSecret("jwt-secret")
  if (Option.isNone(kept)) return yield* failed("No token: give --token, or set TASK_SERVICE_TOKEN")
  return yield* Banner.mint(kept.value)
})

/** Progress for people goes to stderr, so that stdout has the answer alone. */
export const note = (text: string) => Console.error(text)

/** Prints an answer: as JSON, or in the words of `render`. */
export const print = <A>(answer: A, render: (answer: A) => string) =>
  Effect.flatMap(root, ({ json }) => Console.log(json ? JSON.stringify(answer) : render(answer)))

/** A client of the service, as the user. */
export const connect = Effect.gen(function*() {
  const { token, url } = yield* root
  const found = yield* findToken(token)
  return yield* Effect.try({
    try: () => new TaskServiceClient({ baseUrl: url, token: found }),
    catch: asFailure
  })
})

/** Calls the service as the user. */
export const call = <A>(ask: (client: TaskServiceClient, signal: AbortSignal) => PromiseLike<A>) =>
  Effect.flatMap(connect, (client) => Effect.tryPromise({ try: (signal) => ask(client, signal), catch: asFailure }))

/** The JSON that a user typed. */
export const parseJson = (what: string, text: string) =>
  Effect.try({ try: (): unknown => JSON.parse(text), catch: () => failed(`${what} is not valid JSON`) })

/** The texts in a turn's output, which is all that most turns have. */
export const textOf = (turn: unknown): string => {
  const output = Predicate.hasProperty(turn, "output") && Array.isArray(turn.output) ? turn.output : []
  return output.flatMap((item) => Predicate.hasProperty(item, "text") ? [String(item.text)] : []).join("\n")
}
