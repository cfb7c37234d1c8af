/** Maps failures of use cases to the public errors, which carry the same message. */
import { Effect } from "effect"
import { Forbidden, invalid, NotFound, ServiceUnavailable } from "../contract/Errors.ts"

/** A handler for `Effect.catchTags`. */
export const failWith =
  <E>(PublicError: new(fields: { readonly message: string }) => E) =>
  ({ message }: { readonly message: string }): Effect.Effect<never, E> => Effect.fail(new PublicError({ message }))

/** The store is away. */
export const storeErrors = { StoreUnavailable: failWith(ServiceUnavailable) }

/** A limit refuses a create: what is wrong with the request is that it is one. */
export const refusedCreates = {
  CreateRefused: ({ message }: { readonly message: string }) => Effect.fail(invalid("body", message))
}

/** A task that does not exist, belongs to another user, or cannot be read. */
export const taskErrors = {
  ...storeErrors,
  TaskNotFound: failWith(NotFound),
  TaskBelongsToAnother: failWith(Forbidden)
}
