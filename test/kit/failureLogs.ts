/** A failed test prints the end of the logs of its services. A setup file of each project with services. */
import { afterEach } from "vitest"
import { takeLogs } from "./Service.ts"

// Before `onTestFinished` stops the services of a test.
afterEach(({ task }) => {
  const logs = takeLogs()
  if (task.result?.state !== "fail") return
  for (const log of logs) process.stderr.write(`\n${task.name}\n${log}\n`)
})
