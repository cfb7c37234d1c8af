import { assert, describe, it } from "vitest"
import { commands } from "../../../src/runtime/cli/Commands.ts"

describe("the commands", () => {
  it("have a description and an example that runs them", () => {
    for (const { description = "", examples, name } of commands) {
      assert.notStrictEqual(description, "", name)
      assert.isTrue(examples.some(({ command }) => command.includes(`async-task-service ${name}`)), name)
    }
  })
})
