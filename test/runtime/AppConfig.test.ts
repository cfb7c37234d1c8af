import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as AppConfig from "../../src/runtime/AppConfig.ts"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"

it.effect("every wrong setting is named in one message, in plain words", () =>
  Effect.gen(function*() {
    const directory = temporaryDirectory()
    yield* Effect.addFinalizer(() => Effect.sync(() => removeDirectory(directory)))
    const settings = { DATA_DIR: directory, PORT: "abc", RETENTION: "soon", CLUSTER: "maybe", JWT_SECRET: "short" }
    const { message } = yield* Effect.flip(AppConfig.load(settings))
    assert.deepStrictEqual(message.split("\n"), [
      "The settings cannot be used:",
      "  PORT: Expected a string representing a finite number",
      "  JWT: JWT_SECRET must have 32 bytes or more",
      "  RETENTION: Expected a valid Duration string",
      "  CLUSTER: Expected \"true\" | \"yes\" | \"on\" | \"1\" | \"y\" | \"false\" | \"no\" | \"off\" | \"0\" | \"n\""
    ])
  }))
