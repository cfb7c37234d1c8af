/** Maps failures of use cases to the public errors, which carry the same message. */
import { Effect } from "effect"
import { Forbidden, NotFound } from "../contract/Errors.ts"

/** A handler for `Effect.catchTags`. */
export const failWith =
  <E>(PublicError: new(fields: { readonly message: string }) => E) =>
  ({ message }: { readonly message: string }): Effect.Effect<never, E> => Effect.fail(new PublicError({ message }))

/** A task that does not exist or belongs to another user. */
export const taskErrors = { TaskNotFound: failWith(NotFound), TaskBelongsToAnother: failWith(Forbidden) }
