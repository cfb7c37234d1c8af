/** The command with which operators cancel a task of any user, running or not. */
import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { optionalText, uuid } from "./Flags.ts"
import * as InternalToken from "./InternalToken.ts"
import { print } from "./Root.ts"

export const command = Command.make(
  "withdraw",
  {
    uuid,
    reason: optionalText("reason", "Reason, which becomes the task's error").pipe(Flag.withAlias("r")),
    internalToken: InternalToken.flag
  },
  Effect.fnUntraced(function*({ internalToken, reason, uuid }) {
    const body = Option.match(reason, { onNone: () => ({}), onSome: (reason) => ({ reason }) })
    const canceled = yield* InternalToken.call(internalToken, (client) => client["Operations.cancel"]({ uuid, body }))
    return yield* print(canceled, ({ status }) => status)
  })
).pipe(
  Command.withDescription("Cancel any user's task that has not ended, and stop its run (for operators)"),
  Command.withExamples([{ command: "async-task-service withdraw $UUID --reason 'no longer needed'" }])
)
