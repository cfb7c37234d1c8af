/**
 * The assistants of one YAML or JSON file, which is reloaded when it changes. If the new content is invalid, the errors are
 * logged with their line numbers and the previous assistants stay in use.
 */
import { Effect, FileSystem, Redacted, Ref, Result, Schema, SchemaIssue, UndefinedOr } from "effect"
import { readFileSync } from "node:fs"
import { isNode, LineCounter, parseDocument } from "yaml"
import { JsonObject } from "../../../domain/json/OpaqueJson.ts"
import { type Assistant, type Assistants, defaultRounds } from "./Assistants.ts"
import type { Endpoint } from "./OpenAiModel.ts"

type Environment = Readonly<Record<string, string | undefined>>

/** The file is invalid; the message lists every error with its line. */
export class InvalidAssistants extends Schema.TaggedError<InvalidAssistants>()("InvalidAssistants", {
  message: Schema.String
}) {}

const Id = Schema.Int.check(Schema.isGreaterThan(0, { expected: "an integer of at least 1" }))

const Url = Schema.String.check(
  Schema.isPattern(/^https?:\/\/[^/?#\s]\S*$/i, { expected: "an http or https URL" })
)

const Rounds = Schema.Int.check(
  Schema.isBetween({ minimum: 1, maximum: 1000 }, { expected: "an integer between 1 and 1000" })
)

const isUniqueById = Schema.makeFilter((items: ReadonlyArray<{ readonly id: number }>) =>
  items.flatMap(({ id }, index): ReadonlyArray<Schema.FilterIssue> =>
    items.findIndex((other) => other.id === id) < index
      ? [{ path: [index, "id"], issue: `The id ${id} is used more than once` }]
      : []
  )
)

/** The schema of the whole file. */
const definitionsFor = (environment: Environment) => {
  const isSet = Schema.makeFilter((name: string) => environment[name] !== undefined || `${name} is not set`)
  const Configuration = Schema.Struct({
    id: Id,
    base_url: Url,
    model: Schema.NonEmptyString,
    /** The environment variable that contains the key, so that the file contains no secret. */
    api_key_env: Schema.optionalKey(Schema.NonEmptyString.check(isSet)),
    parameters: Schema.optionalKey(JsonObject)
  })
  const Definition = Schema.Struct({
    id: Id,
    name: Schema.NonEmptyString,
    instructions: Schema.optionalKey(Schema.String),
    llm_models: Schema.NonEmptyArray(Configuration).check(isUniqueById),
    image_generators: Schema.optionalKey(Schema.Array(Configuration).check(isUniqueById)),
    limits: Schema.optionalKey(Schema.Struct({ rounds: Schema.optionalKey(Rounds) }))
  })
  return Schema.Struct({ assistants: Schema.NonEmptyArray(Definition).check(isUniqueById) })
}
type Definition = ReturnType<typeof definitionsFor>["Type"]["assistants"][number]

const toAssistant = (definition: Definition, environment: Environment): Assistant => {
  const endpoints = (configurations: Definition["image_generators"] = []) =>
    new Map(configurations.map(({ api_key_env, base_url, id, model, parameters = {} }): [number, Endpoint] => {
      const apiKey = UndefinedOr.map(api_key_env, (variable) => Redacted.make(environment[variable] ?? ""))
      return [id, { baseUrl: base_url.replace(/(?<!\/)\/+$/, ""), apiKey, model, parameters }]
    }))
  return {
    id: definition.id,
    name: definition.name,
    instructions: definition.instructions ?? "",
    models: endpoints(definition.llm_models),
    imageGenerators: endpoints(definition.image_generators),
    maxRounds: definition.limits?.rounds ?? defaultRounds
  }
}

const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/** Parses the text of a file; `name` is the file's name in error messages. */
export const parse = (
  text: string,
  name: string,
  environment: Environment
): Result.Result<Assistants, InvalidAssistants> => {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const lineOf = (path: ReadonlyArray<PropertyKey>): number => {
    const node = document.getIn(path, true)
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line
    return path.length === 0 ? 1 : lineOf(path.slice(0, -1))
  }
  const invalid = (problems: ReadonlyArray<readonly [line: number, message: string]>) =>
    new InvalidAssistants({ message: problems.map(([line, message]) => `${name}:${line}: ${message}`).join("\n") })
  if (document.errors.length > 0) {
    return Result.fail(invalid(document.errors.map(({ message, pos }) => [lines.linePos(pos[0]).line, message])))
  }
  const value = Result.try({
    try: (): unknown => document.toJS({ maxAliasCount: 100 }),
    catch: (error) => invalid([[1, String(error)]])
  })
  const decode = Schema.decodeUnknownResult(definitionsFor(environment), { errors: "all", onExcessProperty: "error" })
  const decoded = Result.flatMap(
    value,
    (whole) =>
      Result.mapError(decode(whole), ({ issue }) =>
        invalid(
          issuesOf(issue).issues.map(({ message, path = [] }) => {
            const steps = path.map((step) => typeof step === "object" ? step.key : step)
            return [lineOf(steps), steps.length === 0 ? message : `${steps.map(String).join(".")}: ${message}`]
          })
        ))
  )
  return Result.map(
    decoded,
    ({ assistants }) => new Map(assistants.map((definition) => [definition.id, toAssistant(definition, environment)]))
  )
}

const unreadable = (path: string) => new InvalidAssistants({ message: `${path}: cannot be read` })

/** Why a file cannot be used: one line for each problem, none if it can. */
export const problemsOf = (path: string, environment: Environment): ReadonlyArray<string> =>
  Result.try({ try: () => readFileSync(path, "utf8"), catch: () => unreadable(path) }).pipe(
    Result.flatMap((text) => parse(text, path, environment)),
    Result.match({ onSuccess: () => [], onFailure: ({ message }) => message.split("\n") })
  )

/** The assistants of a file. `current` reloads the file if it has changed. */
export const open = Effect.fnUntraced(function*(path: string, environment: Environment) {
  const files = yield* FileSystem.FileSystem
  const stampOf = Effect.map(files.stat(path), ({ ino, mtime, size }) => [mtime, size, ino].map(String).join())
  const load = Effect.flatMap(files.readFileString(path), (text) => Effect.fromResult(parse(text, path, environment)))
  const known = yield* Effect.all({ stamp: stampOf, assistants: load }).pipe(
    Effect.catchTag("PlatformError", () => unreadable(path)),
    Effect.flatMap(Ref.make)
  )

  const reload = Effect.gen(function*() {
    const stamp = yield* stampOf
    if (stamp === (yield* Ref.get(known)).stamp) return
    yield* Ref.update(known, (before) => ({ ...before, stamp }))
    const assistants = yield* load
    yield* Ref.set(known, { stamp, assistants })
  })
  const current = reload.pipe(
    Effect.catch(({ message }) =>
      Effect.logError("the assistants file is invalid, the previous assistants stay in use", message)
    ),
    Effect.andThen(Effect.map(Ref.get(known), ({ assistants }) => assistants))
  )
  return { current }
})
