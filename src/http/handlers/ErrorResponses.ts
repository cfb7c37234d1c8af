/** Maps failures of use cases to the public errors, which carry the same message and a code of the same name. */
import { Effect } from "effect"
import { codeOfTag } from "../contract/ErrorCodes.ts"
import { Forbidden, invalid, NotFound, ServiceUnavailable, TooManyRequests } from "../contract/Errors.ts"

/** A handler for `Effect.catchTags`. */
export const failWith =
  <E>(PublicError: new(fields: { readonly message: string; readonly code: string }) => E) =>
  ({ _tag, message }: { readonly _tag: string; readonly message: string }): Effect.Effect<never, E> =>
    Effect.fail(new PublicError({ message, code: codeOfTag(_tag) }))

/** The store is away. */
export const storeErrors = { StoreUnavailable: failWith(ServiceUnavailable) }

/** A limit refuses a create: what is wrong with the request is that it is one. */
export const refusedCreates = {
  CreateRefused: ({ limit, message }: { readonly limit: string; readonly message: string }) =>
    Effect.fail(invalid("body", message, `too_many_${limit}`))
}

/** A task that does not exist, belongs to another user, or cannot be read. */
export const taskErrors = {
  ...storeErrors,
  TaskNotFound: failWith(NotFound),
  TaskBelongsToAnother: failWith(Forbidden)
}

/** The same of a reader who may wait for changes. */
export const readErrors = { ...taskErrors, TooManyWaiting: failWith(TooManyRequests) }
