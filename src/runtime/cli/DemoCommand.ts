/** The command `demo`: walks through the main features. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { boolean } from "./Flags.ts"
import { findToken, root } from "./Root.ts"

export const command = Command.make(
  "demo",
  {
    running: boolean(
      "running",
      "Use the service at --url instead of a temporary one; it must be able to send webhooks to this machine"
    )
  },
  Effect.fnUntraced(function*({ running }) {
    const { token, url } = yield* root
    const Demo = yield* Effect.promise(() => import("./Demo.ts"))
    yield* Demo.run(running ? { url, token: yield* findToken(token) } : undefined)
  })
).pipe(
  Command.withDescription("Demonstrate upload, create, progress, tool calls, webhooks and cancel"),
  Command.withExamples([{ command: "async-task-service demo", description: "With a temporary service" }])
)
