/** Decodes query parameters. An unknown value is an error: ignoring it would return an unfiltered list. */
import { Duration, Effect, Result, Schema } from "effect"
import { hasAtMostCharacters, isStorable } from "../../domain/Fields.ts"
import * as Limits from "../../domain/Limits.ts"
import * as Metadata from "../../domain/Metadata.ts"
import { TaskStatus } from "../../domain/Task.ts"
import { parse, type Timestamp } from "../../domain/Timestamp.ts"
import type { TaskLink } from "../../services/Extensions.ts"
import type { Chosen } from "../../services/store/tasks/TaskStore.ts"
import type { ValidationFailed } from "../contract/Errors.ts"
import { validationFailed } from "./body/BodyErrors.ts"

type Values = string | ReadonlyArray<string> | undefined

export type Query = { readonly [name: string]: Values }

type Selection = NonNullable<TaskLink["selection"]>

const listIncludes = ["metadata", "excerpt", "waiting_on", "assistant"] as const

export interface ListQuery extends Chosen {
  readonly statuses: ReadonlyArray<TaskStatus>
  readonly page: number
  readonly perPage: number
  /** Pairs that a task must have. */
  readonly metadata: Metadata.Metadata | null
  readonly included: ReadonlySet<typeof listIncludes[number]>
  /** The text of a search. */
  readonly text: string | null
  /** Parameters of extensions that select tasks. */
  readonly selections: ReadonlyArray<{ readonly selection: Selection; readonly value: string }>
}

const selectionsOf = (query: Query, links: ReadonlyArray<TaskLink>, errors: Errors) =>
  links.flatMap(({ name, selection }) => {
    if (selection === undefined) return []
    const { expected, isValue } = selection
    const value = query[name]
    if (Object.keys(query).some((given) => given.startsWith(`${name}[`))) errors[name] = [`Expected ${expected}`]
    if (value === undefined) return []
    if (typeof value === "string" && isValue(value)) return [{ selection, value }]
    errors[name] = [`Expected ${expected}`]
    return []
  })

type Errors = Record<string, ReadonlyArray<string>>

export const listOf = (values: Values): ReadonlyArray<string> =>
  values === undefined ? [] : typeof values === "string" ? [values] : values

const isStatus = (text: string): text is TaskStatus => TaskStatus.literals.some((status) => status === text)

/** An integer from 1 to `maximum`, or undefined if the value is invalid. */
const integer = (values: Values, maximum: number, absent: number): number | undefined => {
  if (values === undefined) return absent
  const value = typeof values === "string" && /^\d{1,16}$/.test(values) ? Number(values) : Number.NaN
  return value >= 1 && value <= maximum ? value : undefined
}

/** The comma-separated values of `include`, each one of `names`. */
const includedOf = <Name extends string>(
  query: Query,
  names: ReadonlyArray<Name>,
  errors: Errors
): ReadonlySet<Name> => {
  refuseForms(query, ["include"], errors)
  const given = listOf(query["include"]).flatMap((text) => text.split(","))
  const isName = (text: string): text is Name => names.some((name) => name === text)
  if (!given.every(isName)) errors["include"] = [`Expected one or more of ${names.join(", ")}`]
  return new Set(given.filter(isName))
}

const pairRule =
  `Expected one text of 1 to ${Limits.metadataValueLength} characters, by a key of up to ${Limits.metadataKeyLength}`

const isPair = (key: string, values: Values): values is string =>
  typeof values === "string" && values !== "" && isStorable(key) && isStorable(values) &&
  Schema.is(Metadata.Metadata)({ [key]: values })

/** The pairs of `metadata[key]=value`. */
const metadataOf = (query: Query, errors: Errors): Metadata.Metadata | null => {
  const given = Object.entries(query).filter(([name]) => /^metadata(\[|$)/.test(name))
  if (given.length > Limits.metadataFilters) errors["metadata"] = [`Expected at most ${Limits.metadataFilters} pairs`]
  const pairs = given.slice(0, Limits.metadataFilters).flatMap(([name, values]) => {
    const [, key] = /^metadata\[(.+)\]$/s.exec(name) ?? []
    if (key !== undefined && isPair(key, values)) return [[key, values] as const]
    if (key === undefined) errors["metadata"] = ["Expected metadata[key]=value"]
    else errors[`metadata.${key}`] = [pairRule]
    return []
  })
  return Metadata.orNull(Object.fromEntries(pairs))
}

/** One value of a parameter; null without it. */
const oneOf = <A>(
  query: Query,
  name: string,
  errors: Errors,
  expected: string,
  read: (text: string) => A | undefined
): A | null => {
  const value = query[name]
  const isForm = Object.keys(query).some((given) => given.startsWith(`${name}[`))
  if (value === undefined && !isForm) return null
  const found = isForm || typeof value !== "string" ? undefined : read(value)
  if (found !== undefined) return found
  errors[name] = [expected]
  return null
}

const aMoment = "Expected a moment in ISO 8601 with its offset"

const chosenOf = (query: Query, errors: Errors): Chosen => {
  const momentOf = (name: string): Timestamp | null => oneOf(query, name, errors, aMoment, parse)
  return {
    assistantId: oneOf(
      query,
      "assistant_id",
      errors,
      `Expected an integer between 1 and ${Number.MAX_SAFE_INTEGER}`,
      (text) => integer(text, Number.MAX_SAFE_INTEGER, 1)
    ),
    from: momentOf("from"),
    to: momentOf("to")
  }
}

const textOf = (query: Query, errors: Errors): string | null =>
  oneOf(
    query,
    "q",
    errors,
    `Expected one text of 1 to ${Limits.searchLength} characters`,
    (text) => isSearchText(text) ? text.trim() : undefined
  )

const isSearchText = (text: string) =>
  text.trim() !== "" && hasAtMostCharacters(text, Limits.searchLength) && isStorable(text)

/** A bracket form of a parameter that has none is an error: ignoring it would give another answer. */
const refuseForms = (query: Query, names: ReadonlyArray<string>, errors: Errors) => {
  for (const name of Object.keys(query)) {
    const field = name.split("[", 1)[0]!
    if (field !== name && names.includes(field)) errors[field] = [`${name} is not a form of this parameter`]
  }
}

/** The page that a query asks for. Adds what is wrong with it to `errors`. */
const pageOf = (query: Query, errors: Errors) => {
  refuseForms(query, ["page", "per_page"], errors)
  const page = integer(query["page"], Number.MAX_SAFE_INTEGER, 1)
  if (page === undefined) errors["page"] = [`Expected an integer between 1 and ${Number.MAX_SAFE_INTEGER}`]
  const perPage = integer(query["per_page"], Limits.perPage.maximum, Limits.perPage.default)
  if (perPage === undefined) errors["per_page"] = [`Expected an integer between 1 and ${Limits.perPage.maximum}`]
  return { page: page ?? 1, perPage: perPage ?? Limits.perPage.default }
}

/** The page of a list that has no other parameters. */
export const decodePage = (query: Query): Result.Result<ReturnType<typeof pageOf>, ValidationFailed> => {
  const errors: Errors = {}
  const page = pageOf(query, errors)
  return Object.keys(errors).length > 0 ? Result.fail(validationFailed(errors)) : Result.succeed(page)
}

/** The query of `GET /api/tasks`. `status` is one value, comma-separated values, or an array (`status[]`). */
export const decodeListQuery = (
  query: Query,
  links: ReadonlyArray<TaskLink> = []
): Result.Result<ListQuery, ValidationFailed> => {
  const errors: Errors = {}
  const given = Object.entries(query)
    .flatMap(([name, values]) => /^status(\[\d*\])?$/.test(name) ? listOf(values) : [])
    .flatMap((text) => text.split(","))
  if (!given.every(isStatus)) errors["status"] = [`Expected one or more of ${TaskStatus.literals.join(", ")}`]
  // An unknown bracket form is an error; ignoring it would drop the filter.
  for (const name of Object.keys(query)) {
    if (/^status\[(?!\d*\]$)/.test(name)) errors["status"] = [`${name} is not a form of this parameter`]
  }
  const { page, perPage } = pageOf(query, errors)
  const metadata = metadataOf(query, errors)
  const included = includedOf(query, listIncludes, errors)
  const chosen = chosenOf(query, errors)
  const text = textOf(query, errors)
  const selections = selectionsOf(query, links, errors)
  if (Object.keys(errors).length > 0) return Result.fail(validationFailed(errors))
  const statuses = [...new Set(given.filter(isStatus))]
  return Result.succeed({ statuses, page, perPage, metadata, included, ...chosen, text, selections })
}

/** The tasks of a user that all selections have in common; null without a selection. */
export const selected = Effect.fnUntraced(function*(sub: string, selections: ListQuery["selections"]) {
  const [first, ...others] = yield* Effect.forEach(selections, ({ selection, value }) => selection.select(sub, value))
  return first === undefined ? null : first.filter((uuid) => others.every((found) => found.includes(uuid)))
})

/** The values of `include`. A task always has its turn. */
const includes = ["waiting_on", "request", "turn", "metadata"] as const

export interface TaskQuery {
  /** Zero for an immediate response. */
  readonly wait: Duration.Duration
  readonly included: ReadonlySet<typeof includes[number]>
  /** Those of extensions. */
  readonly links: ReadonlyArray<TaskLink>
}

/** The query of `GET /api/tasks/{uuid}`. */
export const decodeTaskQuery = (
  query: Query,
  known: ReadonlyArray<TaskLink> = []
): Result.Result<TaskQuery, ValidationFailed> => {
  const errors: Errors = {}
  const wait = integer(query["wait"], Limits.waitSeconds, 0)
  if (wait === undefined) errors["wait"] = [`Expected an integer between 1 and ${Limits.waitSeconds}`]
  refuseForms(query, ["wait"], errors)
  const all = includedOf<string>(query, [...includes, ...known.map(({ name }) => name)], errors)
  if (wait === undefined || Object.keys(errors).length > 0) return Result.fail(validationFailed(errors))
  const included = new Set(includes.filter((name) => all.has(name)))
  const held = Duration.seconds(Math.min(wait, Limits.heldSeconds))
  return Result.succeed({ wait: held, included, links: known.filter(({ name }) => all.has(name)) })
}

/** The query of `GET /api/tasks/{uuid}/events`. */
export const decodeEventsQuery = (
  query: Query
): Result.Result<{ readonly includesTurn: boolean; readonly includesText: boolean }, ValidationFailed> => {
  const errors: Errors = {}
  const included = includedOf(query, ["turn", "text"], errors)
  return Object.keys(errors).length > 0
    ? Result.fail(validationFailed(errors))
    : Result.succeed({ includesTurn: included.has("turn"), includesText: included.has("text") })
}
