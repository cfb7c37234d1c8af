/** Wrong values of flags and arguments. */
import { assert, describe, it } from "vitest"
import { runHere } from "../../kit/runToEnd.ts"

describe("the usage errors of the command line", () => {
  it.each([
    ["Invalid value for flag --body: \"[]\". Expected: a JSON object", "create", "--body", "[]", "hi"],
    ["Invalid value for flag --body: \"{bad\". Expected: a JSON object", "rerun", "x", "--body", "{bad"],
    ["No input: pass a text, --file or an input field in --body", "create"],
    ["input is set by both the text argument and --body", "create", "hi", "--body", `{"input": []}`],
    [
      "metadata is set by both --metadata and --body",
      "create",
      "hi",
      "--metadata",
      "a=1",
      "--body",
      `{"metadata": {"b": "2"}}`
    ],
    [
      "Invalid value for argument <call=result>: \"call=oops\". Expected: a call id, = and JSON, or call=!text",
      "submit-results",
      "x",
      "call=oops"
    ],
    [
      "Invalid value for argument <call=result>: \"foo\". Expected: a call id, = and JSON, or call=!text",
      "submit-results",
      "x",
      "foo"
    ],
    ["Specify either a uuid or --interrupted", "cancel"],
    ["--reason requires a uuid, not --interrupted", "cancel", "--interrupted", "-r", "late"],
    ["Invalid value for flag --url: \"nonsense\". Expected: an http or https URL", "list", "--url", "nonsense"],
    ["Invalid value for flag --limit: \"0\". Expected: an integer of at least 1", "list", "-n", "0"],
    ["Invalid value for flag --limit: \"abc\". Expected: an integer", "list", "-n", "abc"],
    ["Invalid value for flag --assistant: \"x\". Expected: an integer", "create", "-a", "x", "hi"],
    ["Invalid value for flag --metadata: \"order\". Expected: key=value", "list", "--metadata", "order"],
    [
      "Invalid value for flag --status: \"failed,ended\". " +
      "Expected: one or more of pending,processing,interrupted,completed,failed,canceled",
      "list",
      "-s",
      "failed,ended"
    ],
    ["Invalid value for flag --file: \"nope.txt\". Expected: an existing file", "create", "hi", "--file", "nope.txt"],
    ["Invalid value for argument <file>: \"nope.txt\". Expected: an existing file", "upload", "nope.txt"],
    [
      "Invalid value for flag --valid-for: \"xx\". Expected: a duration such as '1 hour'",
      "token",
      "--valid-for",
      "xx"
    ]
  ])("exits with 2: %s", async (message, name, ...args) => {
    const { code, err, out } = await runHere([name ?? "", ...args])
    assert.deepStrictEqual([code, out, err], [2, "", `${message}\nSee async-task-service ${name} --help`])
  })
})
