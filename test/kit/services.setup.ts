/** A failed test prints the end of the logs of its services, and a suite that leaves one without a failed test fails. A setup file of each project with services. */
import { afterAll, afterEach } from "vitest"
import { killLeft, takeLogs } from "./Service.ts"

let hasFailed = false

// Before `onTestFinished` stops the services of a test.
afterEach(({ task }) => {
  const logs = takeLogs()
  if (task.result?.state !== "fail") return
  hasFailed = true
  for (const log of logs) process.stderr.write(`\n${task.name}\n${log}\n`)
})

// A service that a suite leaves would run next to the later suites of its worker. A test that failed may not have closed its own.
afterAll(async () => {
  const left = await killLeft()
  if (left.length > 0 && !hasFailed) throw new Error(`a service was not closed: ${left.join("\n")}`)
})
