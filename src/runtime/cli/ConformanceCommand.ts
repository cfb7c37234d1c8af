/** The command `conformance`: runs black-box tests of the public interface against any deployment. */
import { Effect, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import * as Flags from "./Flags.ts"
import { described, failed, findToken, note, print, root } from "./Root.ts"

export const command = Command.make(
  "conformance",
  {
    otherToken: Flag.Redacted("other-token").pipe(
      Flag.withDescription("JWT of a second user, for the tests of isolation between users"),
      Flag.optional
    ),
    assistant: Flags.int("assistant", "Id of an assistant that completes its tasks", 1),
    toolsAssistant: Flags.optionalInt(
      "tools-assistant",
      "Id of an assistant that calls the client tools it is given (2 in the demo backend)"
    )
  },
  Effect.fnUntraced(function*({ assistant, otherToken, toolsAssistant }) {
    const { json, token, url } = yield* root
    // Imported here so that the other commands start quickly.
    const Conformance = yield* Effect.promise(() => import("../conformance/Conformance.ts"))
    const { FetchHttpClient } = yield* Effect.promise(() => import("effect/http"))
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
        )).pipe(Effect.provide(FetchHttpClient.layer))
    const count = (outcome: string) => reports.filter((report) => report.outcome === outcome).length
    const summary = { url: deployment.url, passed: count("passed"), failed: count("failed"), skipped: count("skipped") }
    yield* print(
      { ...summary, cases: reports },
      () => `${summary.passed} passed, ${summary.failed} failed, ${summary.skipped} skipped`
    )
    if (summary.failed > 0) {
      return yield* failed(`${summary.failed} of ${reports.length} cases failed`)
    }
  })
).pipe(
  described(
    "Test whether a deployment conforms to the public interface",
    "conformance --url https://tasks.example.com --token $A --other-token $B --tools-assistant 2 --json"
  )
)
