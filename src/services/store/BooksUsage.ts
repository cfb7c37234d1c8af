/** Whether an extension books the outbox of usage. Without one nothing is written to it, since nobody would delete it. */
import { Context } from "effect"

export const BooksUsage = Context.Reference("async-task-service/services/store/BooksUsage", {
  defaultValue: () => false
})
