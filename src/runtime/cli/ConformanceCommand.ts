/** The command `conformance`: whether a deployment, anyone's, keeps what SPEC promises. */
import { Effect, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { FetchHttpClient } from "effect/http"
import { failed, findToken, note, print, root } from "./Root.ts"

export const command = Command.make(
  "conformance",
  {
    otherToken: Flag.Redacted("other-token").pipe(
      Flag.withDescription("JWT of a second user, for what must be hidden from others"),
      Flag.optional
    ),
    assistant: Flag.Int("assistant").pipe(Flag.withDescription("An assistant that answers"), Flag.withDefault(1)),
    toolsAssistant: Flag.Int("tools-assistant").pipe(
      Flag.withDescription("An assistant that calls the client tools it is given; 2 is the demo's"),
      Flag.optional
    )
  },
  Effect.fnUntraced(function*({ assistant, otherToken, toolsAssistant }) {
    const { json, token, url } = yield* root
    const Conformance = yield* Effect.promise(() => import("../conformance/Conformance.ts"))
    const deployment = {
      url: url.replace(/(?<!\/)\/+$/, ""),
      token: yield* findToken(token),
      otherToken: Option.getOrUndefined(Option.map(otherToken, Redacted.value)),
      assistant,
      toolsAssistant: Option.getOrUndefined(toolsAssistant)
    }
    const reports = yield* Conformance.run(deployment, ({ message, milliseconds, name, outcome, section }) =>
      json
        ? Effect.void
        : note(
          `${outcome.padEnd(7)}  ${section}: ${name}${message === null ? "" : `: ${message}`}  (${milliseconds} ms)`
        ))
    const count = (outcome: string) => reports.filter((report) => report.outcome === outcome).length
    const summary = { url: deployment.url, passed: count("passed"), failed: count("failed"), skipped: count("skipped") }
    yield* print(
      { ...summary, cases: reports },
      () => `${summary.passed} passed, ${summary.failed} failed, ${summary.skipped} skipped`
    )
    if (summary.failed > 0) {
      return yield* failed(`${summary.failed} of ${reports.length} cases failed`)
    }
  }, Effect.provide(FetchHttpClient.layer))
).pipe(
  Command.withDescription("Hold a deployment to the interface, from outside; --json is the report"),
  Command.withExamples([{
    command:
      "async-task-service conformance --url https://tasks.example.com --token $A --other-token $B --tools-assistant 2 --json"
  }])
)
