/** Frozen. The format of a task's webhooks; null is the task itself. */
import * as Requests from "./0012_requests.ts"

const insertion = `token_id, token_issued_at
    ) VALUES (`
const values = `p_acceptance_deadline_at, p_token_id, p_token_issued_at
    );`

export const statements: ReadonlyArray<string> = [
  `ALTER TABLE tasks ADD COLUMN callback_format text`,
  // Nodes of the previous version still call the function without the format.
  ...Requests.statements.filter((statement) => statement.startsWith("CREATE FUNCTION create_task")).map((statement) =>
    statement
      .replace("p_metadata jsonb, OUT", "p_metadata jsonb, p_callback_format text, OUT")
      .replace(insertion, insertion.replace("token_issued_at", "token_issued_at, callback_format"))
      .replace(values, values.replace("p_token_issued_at", "p_token_issued_at, p_callback_format"))
  )
]
