/** The tables of the core that name users. Those with the rows of tasks follow the tasks (`TaskStore`). */
import type { UserData } from "../Extensions.ts"

const isOfUser = "sub = $1::text"

/** Revocations stay: they keep tokens out that are not expired. */
export const userData: UserData = {
  tables: [
    { table: "waiting_runs", isOfUser, exported: null },
    { table: "webhook_deliveries", isOfUser, exported: null },
    { table: "idempotency_keys", isOfUser, exported: null },
    { table: "webhook_redeliveries", isOfUser, exported: null },
    {
      table: "user_limits",
      isOfUser,
      exported: { type: "limits", key: { sub: "text" }, fields: { max_active_tasks: "max_active_tasks" } }
    }
  ]
}
