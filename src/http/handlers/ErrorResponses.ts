/** Public errors in place of the failures of use cases. They have the same message, and a code of the same name. */
import { Effect } from "effect"
import { codeOfTag } from "../contract/ErrorCodes.ts"
import { Forbidden, invalid, NotFound, ServiceUnavailable, TooManyRequests } from "../contract/Errors.ts"
import * as IdempotencyKey from "./IdempotencyKey.ts"

/** Makes the public error of a class from a failure. */
export const as =
  <E>(PublicError: new(fields: { readonly message: string; readonly code: string }) => E) =>
  ({ _tag, message }: { readonly _tag: string; readonly message: string }): E =>
    new PublicError({ message, code: codeOfTag(_tag) })

/** The store is away. */
export const storeErrors = { StoreUnavailable: as(ServiceUnavailable) }

/** A task that does not exist, belongs to another user, or cannot be read. */
export const taskErrors = { ...storeErrors, TaskNotFound: as(NotFound), TaskBelongsToAnother: as(Forbidden) }

/** The same of a reader who may wait for changes. */
export const readErrors = { ...taskErrors, TooManyWaiting: as(TooManyRequests) }

export const createErrors = {
  ...storeErrors,
  IdempotencyKeyReused: () => IdempotencyKey.reused,
  TooManyActiveTasks: as(TooManyRequests),
  /** A limit refuses a create: what is wrong with the request is that it is one. */
  CreateRefused: ({ limit, message }: { readonly limit: string; readonly message: string }) =>
    invalid("body", message, `too_many_${limit}`)
}

type Table = Readonly<Record<string, (failure: never) => unknown>>
type Public<T extends Table, E> = E extends { readonly _tag: infer Tag extends keyof T } ? ReturnType<T[Tag]> : E

/** Returns a function that replaces failures by public errors, which a table has by their tags. Other failures stay. */
export const refusing = <T extends Table>(table: T) => {
  const publicOf = <E>(failure: E): Public<T, E> => {
    // Failures of other kinds have no tag.
    const { _tag: tag } = failure as { readonly _tag?: string }
    const make = tag !== undefined && Object.hasOwn(table, tag) ? table[tag] : undefined
    // The entry of a tag takes the failure with that tag.
    return (make === undefined ? failure : make(failure as never)) as Public<T, E>
  }
  return <A, E, R>(operation: Effect.Effect<A, E, R>): Effect.Effect<A, Public<T, E>, R> =>
    Effect.mapError(operation, publicOf)
}
