/** The machine's Chromium. In CI its absence is a failure; elsewhere the tests that need it are skipped, with a message. */
import { existsSync } from "node:fs"
import * as path from "node:path"
import { type Browser, chromium } from "playwright-core"
import { use } from "./suite.ts"

const executablePath = (process.env["PATH"] ?? "").split(path.delimiter)
  .flatMap((folder) => ["chromium", "chromium-browser", "google-chrome"].map((name) => path.join(folder, name)))
  .find((file) => existsSync(file))

export const hasBrowser = executablePath !== undefined

if (!hasBrowser) {
  const message = "PATH has no chromium or google-chrome: the tests of web pages need one"
  if (process.env["CI"] !== undefined) throw new Error(message)
  process.stderr.write(`${message}, and are skipped\n`)
}

export const launch = () => chromium.launch({ executablePath: executablePath ?? "", args: ["--no-sandbox"] })

/** The browser of a suite. Without one all of its tests are skipped, and none looks at it. */
export const useBrowser = async (): Promise<Browser> => hasBrowser ? use(launch()) : null as never
