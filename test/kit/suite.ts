/** Resources of a suite or of one test. They close after it, in reverse order. */
import { afterAll, assert, onTestFinished, TestRunner } from "vitest"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import type { Service } from "./Service.ts"

interface Closable {
  readonly close: () => unknown
}

/** `afterAll` or `onTestFinished`. */
type After = (end: () => Promise<void> | void, timeout: number) => unknown

/** Milliseconds. */
const timeout = 120_000

/** Within a test `afterAll` would do nothing. Tests that run at the same time pass their own. */
const ofCaller = (): After => TestRunner.getCurrentTest() === undefined ? afterAll : onTestFinished

export const use = async <A extends Closable>(
  starting: A | Promise<A>,
  after: After = ofCaller()
): Promise<A> => {
  const resource = await starting
  after(async () => {
    await resource.close()
  }, timeout)
  return resource
}

export const useDirectory = (after: After = ofCaller()): string => {
  const directory = temporaryDirectory()
  after(() => removeDirectory(directory), timeout)
  return directory
}

/**
 * Stops services at the end of the suite and checks that they logged no failed request, warning or error, but for outages of the
 * assistant backend, which tests cause.
 */
export const expectQuiet = (...services: ReadonlyArray<Service>) =>
  afterAll(async () => {
    for (const service of services) await service.stop()
    for (const { output } of services) {
      assert.notMatch(output, /a request failed|WARN(?!.*: The assistant backend is unavailable: .)|ERROR/)
    }
  })
