/**
 * The assistants there are: one file (YAML, of which JSON is a part), read again when it has changed. A change that cannot
 * be used is told in the log, by line, and the assistants stay as they were.
 */
import { Array as Arr, Effect, FileSystem, Predicate, Redacted, Ref, Result, Schema, SchemaIssue } from "effect"
import { LineCounter, parseDocument } from "yaml"
import { JsonObject } from "../../domain/OpaqueJson.ts"
import type { Endpoint } from "./OpenAiModel.ts"

const Id = Schema.Int.check(Schema.isGreaterThan(0, { expected: "an integer of at least 1" }))

const Url = Schema.String.check(
  Schema.isPattern(/^https?:\/\/[^/?#\s]\S*$/i, { expected: "an http or https URL" })
)

const Configuration = Schema.Struct({
  id: Id,
  base_url: Url,
  model: Schema.NonEmptyString,
  /** The environment variable that holds the key: the file holds no secret. */
  api_key_env: Schema.optionalKey(Schema.NonEmptyString),
  parameters: Schema.optionalKey(JsonObject)
})
type Configuration = typeof Configuration.Type

const positive = (maximum: number) =>
  Schema.Int.check(Schema.isBetween({ minimum: 1, maximum }, { expected: `an integer between 1 and ${maximum}` }))

const Definition = Schema.Struct({
  id: Id,
  name: Schema.NonEmptyString,
  instructions: Schema.optionalKey(Schema.String),
  llm_models: Schema.NonEmptyArray(Configuration),
  image_generators: Schema.optionalKey(Schema.Array(Configuration)),
  limits: Schema.optionalKey(Schema.Struct({ rounds: Schema.optionalKey(positive(1000)) }))
})

/** The whole file. */
const Definitions = Schema.Struct({ assistants: Schema.NonEmptyArray(Definition) })
type Definitions = typeof Definitions.Type

export interface Assistant {
  readonly id: number
  readonly name: string
  readonly instructions: string
  /** The first one is the default. */
  readonly models: ReadonlyMap<number, Endpoint>
  readonly imageGenerators: ReadonlyMap<number, Endpoint>
  readonly maxRounds: number
}

export type Assistants = ReadonlyMap<number, Assistant>

/** The file cannot be used; the message names every place in it that is wrong. */
export class InvalidAssistants extends Schema.TaggedError<InvalidAssistants>()("InvalidAssistants", {
  message: Schema.String
}) {}

const defaultRounds = 24

/** The configuration of that id, or without a word the default (SPEC "POST /api/tasks"). */
export const pick = (all: ReadonlyMap<number, Endpoint>, id: number | undefined): Endpoint | undefined =>
  (id === undefined ? undefined : all.get(id)) ?? all.values().next().value

type Path = ReadonlyArray<PropertyKey>
type Problem = { readonly path: Path; readonly message: string }

const decode = Schema.decodeUnknownResult(Definitions, { errors: "all", onExcessProperty: "error" })

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

const duplicates = (items: ReadonlyArray<{ readonly id: number }>, path: Path): ReadonlyArray<Problem> =>
  items.flatMap(({ id }, index) =>
    items.findIndex((other) => other.id === id) < index
      ? [{ path: [...path, index, "id"], message: `The id ${id} is used more than once` }]
      : []
  )

type Environment = Readonly<Record<string, string | undefined>>

const problemsOf = ({ assistants }: Definitions, environment: Environment): ReadonlyArray<Problem> => [
  ...duplicates(assistants, ["assistants"]),
  ...assistants.flatMap(({ image_generators = [], llm_models }, index) =>
    Object.entries({ llm_models, image_generators }).flatMap(([field, all]) => [
      ...duplicates(all, ["assistants", index, field]),
      ...all.flatMap(({ api_key_env }, place) =>
        api_key_env === undefined || environment[api_key_env] !== undefined
          ? []
          : [{ path: ["assistants", index, field, place, "api_key_env"], message: `${api_key_env} is not set` }]
      )
    ])
  )
]

const toEndpoint = (environment: Environment) => (configuration: Configuration): readonly [number, Endpoint] => {
  const key = configuration.api_key_env === undefined ? undefined : environment[configuration.api_key_env]
  return [configuration.id, {
    baseUrl: configuration.base_url.replace(/\/+$/, ""),
    apiKey: key === undefined ? undefined : Redacted.make(key),
    model: configuration.model,
    parameters: configuration.parameters ?? {}
  }]
}

/** Reads the text of a file; `name` is how its errors call it. */
export const parse = (
  text: string,
  name: string,
  environment: Environment
): Result.Result<Assistants, InvalidAssistants> => {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const lineOf = (path: Path): number => {
    const node = document.getIn(path, true)
    const range = Predicate.hasProperty(node, "range") ? node.range as ReadonlyArray<number> | null : undefined
    if (range?.[0] !== undefined) return lines.linePos(range[0]).line
    return path.length === 0 ? 1 : lineOf(path.slice(0, -1))
  }
  const invalid = (problems: ReadonlyArray<{ readonly line: number; readonly message: string }>) =>
    Result.fail(
      new InvalidAssistants({ message: problems.map(({ line, message }) => `${name}:${line}: ${message}`).join("\n") })
    )
  if (Arr.isArrayNonEmpty(document.errors)) {
    return invalid(document.errors.map(({ message, pos }) => ({ line: lines.linePos(pos[0]).line, message })))
  }
  const toLine = ({ message, path }: Problem) => ({
    line: lineOf(path),
    message: path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`
  })
  const value = Result.try(() => document.toJS({ maxAliasCount: 100 }) as unknown)
  if (Result.isFailure(value)) return invalid([{ line: 1, message: String(value.failure) }])
  const decoded = decode(value.success)
  if (Result.isFailure(decoded)) {
    return invalid(
      issuesOf(decoded.failure.issue).issues.map(({ message, path = [] }) =>
        toLine({ message, path: path.map((step) => typeof step === "object" ? step.key : step) })
      )
    )
  }
  const problems = problemsOf(decoded.success, environment)
  if (problems.length > 0) return invalid(problems.map(toLine))
  return Result.succeed(
    new Map(decoded.success.assistants.map((definition) => [definition.id, {
      id: definition.id,
      name: definition.name,
      instructions: definition.instructions ?? "",
      models: new Map(definition.llm_models.map(toEndpoint(environment))),
      imageGenerators: new Map((definition.image_generators ?? []).map(toEndpoint(environment))),
      maxRounds: definition.limits?.rounds ?? defaultRounds
    }]))
  )
}

/** What there is without a file: one assistant, when there is a model for it. */
export const general = (id: number, endpoint: Endpoint | undefined): Assistants =>
  new Map(
    endpoint === undefined ? [] : [[id, {
      id,
      name: "General assistant",
      instructions:
        "You work in the background, where nobody can answer a question. Do the user's task as fully as it needs.",
      models: new Map([[1, endpoint]]),
      imageGenerators: new Map(),
      maxRounds: defaultRounds
    }]]
  )

/** The assistants of a file, as it is whenever they are asked for. */
export const fromFile = Effect.fnUntraced(function*(path: string, environment: Environment) {
  const files = yield* FileSystem.FileSystem
  const stamp = Effect.map(
    files.stat(path),
    ({ ino, mtime, size }) => JSON.stringify([mtime, String(size), String(ino)])
  )
  const load = Effect.flatMap(files.readFileString(path), (text) => Effect.fromResult(parse(text, path, environment)))

  const unreadable = () => new InvalidAssistants({ message: `${path}: cannot be read` })
  const first = yield* Effect.all({ stamp, assistants: load }).pipe(
    Effect.catchTag("PlatformError", () => Effect.fail(unreadable()))
  )
  const known = yield* Ref.make(first)

  const current = Effect.gen(function*() {
    const { assistants, stamp: seen } = yield* Ref.get(known)
    const now = yield* stamp
    if (now === seen) return assistants
    const loaded = yield* Effect.tapError(load, ({ message }) =>
      Effect.andThen(
        Effect.logError("the assistants stay as they were: the file cannot be used", message),
        Ref.set(known, { stamp: now, assistants })
      ))
    yield* Ref.set(known, { stamp: now, assistants: loaded })
    return loaded
  }).pipe(Effect.catch(() => Effect.map(Ref.get(known), ({ assistants }) => assistants)))

  return { current }
})
