/** The query of `GET /api/tasks` in all forms that SPEC accepts; an unknown status is an error, never no filter. */
import { Result } from "effect"
import * as Limits from "../../domain/Limits.ts"
import { TaskStatus } from "../../domain/Task.ts"
import type { ValidationFailed } from "../contract/Errors.ts"
import { validationFailed } from "./JsonBody.ts"

type Values = string | ReadonlyArray<string> | undefined

interface ListQuery {
  readonly statuses: ReadonlyArray<TaskStatus>
  readonly page: number
  readonly perPage: number
}

const listOf = (values: Values): ReadonlyArray<string> =>
  values === undefined ? [] : typeof values === "string" ? [values] : values

const isStatus = (text: string): text is TaskStatus => TaskStatus.literals.some((status) => status === text)

/** A whole number within bounds, or undefined. */
const integer = (values: Values, absent: number, maximum: number): number | undefined => {
  if (values === undefined) return absent
  const value = typeof values === "string" && /^\d{1,16}$/.test(values) ? Number(values) : Number.NaN
  return value >= 1 && value <= maximum ? value : undefined
}

export const decodeListQuery = (
  query: { readonly [name: string]: Values }
): Result.Result<ListQuery, ValidationFailed> => {
  const errors: Record<string, Array<string>> = {}
  const given = Object.entries(query)
    .flatMap(([name, values]) => /^status(\[\d*\])?$/.test(name) ? listOf(values) : [])
    .flatMap((text) => text.split(","))
  if (!given.every(isStatus)) errors["status"] = [`Expected one or more of ${TaskStatus.literals.join(", ")}`]
  // A parameter in brackets that mean nothing must not be taken for none.
  for (const name of Object.keys(query)) {
    const [, field] = /^(status)\[(?!\d*\]$)/.exec(name) ?? /^(page|per_page)\[/.exec(name) ?? []
    if (field !== undefined) errors[field] = [`${name} is not a form of this parameter`]
  }
  const page = integer(query["page"], 1, Number.MAX_SAFE_INTEGER)
  if (page === undefined) errors["page"] = ["Expected an integer of at least 1"]
  const perPage = integer(query["per_page"], Limits.perPage.default, Limits.perPage.maximum)
  if (perPage === undefined) errors["per_page"] = [`Expected an integer between 1 and ${Limits.perPage.maximum}`]
  if (page === undefined || perPage === undefined || Object.keys(errors).length > 0) {
    return Result.fail(validationFailed(errors))
  }
  return Result.succeed({ statuses: [...new Set(given.filter(isStatus))], page, perPage })
}
