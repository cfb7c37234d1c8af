/** Settings of the routes of operators. */
import { Context } from "effect"

/** True if operators may read what tasks say. */
export const ShowsContent = Context.Reference("async-task-service/http/operator/OperatorSettings/ShowsContent", {
  defaultValue: () => false
})
