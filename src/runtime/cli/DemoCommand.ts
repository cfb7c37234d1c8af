/** The command `demo`: the main job, told while it is done. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { findToken, root } from "./Root.ts"

export const command = Command.make(
  "demo",
  {
    running: Flag.Boolean("running").pipe(
      Flag.withDescription("Use the service at --url, which must reach webhooks on this machine; else one is started"),
      Flag.withDefault(false)
    )
  },
  Effect.fnUntraced(function*({ running }) {
    const { token, url } = yield* root
    const Demo = yield* Effect.promise(() => import("./Demo.ts"))
    yield* Demo.run(running ? { url, token: yield* findToken(token) } : undefined)
  })
).pipe(Command.withDescription("Show the main job: upload, create, progress, tool calls, webhooks, cancel"))
