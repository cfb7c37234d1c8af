/** Runs a program of each version of the official A2A client against the service. The packages are installed into a temporary folder. */
import assert from "node:assert/strict"
import * as fs from "node:fs"
import * as path from "node:path"
import { Consumers } from "../../kit/consumers.ts"

const programs = {
  a2a: {
    answered: ["COMPLETED", "42"],
    continued: [true, "2"],
    withFile: ["COMPLETED", true],
    asked: ["INPUT_REQUIRED", "weather"],
    called: [true, "COMPLETED"],
    streamed: [["task", "artifactUpdate", "statusUpdate"], "42"],
    subscribed: ["task", "CANCELED"],
    canceled: "CANCELED",
    got: [true],
    listed: 6,
    failures: [
      "JsonRpcTaskNotFoundError",
      "JsonRpcTaskNotCancelableError",
      "JsonRpcUnsupportedOperationError",
      "JsonRpcContentTypeNotSupportedError",
      "PushNotificationNotSupportedError"
    ]
  },
  a2aLegacy: {
    answered: ["task", "completed", "42"],
    withFile: ["completed", true],
    asked: ["input-required", "weather"],
    called: [true, "completed"],
    streamed: [["task", "artifact-update", "status-update"], "42"],
    subscribed: ["task", "canceled", true],
    canceled: "canceled",
    got: true,
    failures: ["TaskNotFoundJSONRPCError", "TaskNotCancelableJSONRPCError", "Error"]
  }
}

await Consumers.run({ FACADE_MODELS: "rules=1" }, async (all) => {
  for (const [name, found] of Object.entries(programs)) {
    const cwd = all.install(path.join(import.meta.dirname, `${name}.json`), name)
    fs.copyFileSync(path.join(import.meta.dirname, `../apps/${name}.ts`), path.join(cwd, "main.ts"))
    assert.deepEqual(await all.use(name, "main.ts", name), found, name)
    console.log(`${name}: every method`)
  }
})
