/** The service, which cannot start processes between one SIGUSR2 and the next. */
import { NodeRuntime } from "@effect/platform-node"
import { teardown } from "../../src/runtime/ErrorMessages.ts"
import { run } from "../../src/runtime/Main.ts"

const { execPath } = process
process.on("SIGUSR2", () => {
  process.execPath = process.execPath === execPath ? "/no/such/program" : execPath
})

NodeRuntime.runMain(run(process.env), { disableErrorReporting: true, teardown })
