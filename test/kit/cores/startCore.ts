/** The program of a core as a process. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as path from "node:path"
import { onTestFinished } from "vitest"
import { python } from "../python.ts"
import { eventually, freePort, internalToken } from "../Service.ts"

export const pythonClient = path.resolve(import.meta.dirname, "../../../src/http/client/python")

export const coreToken = "token-of-the-core"

/** Runs a file of Node or Python until the test or suite ends. Resolves when it listens. */
export const startCore = async (
  file: string,
  variables: Readonly<Record<string, string>> = {},
  after: (end: () => void) => unknown = onTestFinished,
  [command = "", ...args]: ReadonlyArray<string> = [file.endsWith(".py") ? python : process.execPath]
) => {
  const port = variables["PORT"] ?? String(await freePort())
  const child = spawn(command, [...args, file], {
    env: {
      PATH: process.env["PATH"],
      PYTHONPATH: pythonClient,
      CORE_TOKEN: coreToken,
      CORE_EVENT_TOKENS: `${internalToken},another`,
      ...variables,
      PORT: port
    },
    stdio: ["ignore", "pipe", "inherit"]
  })
  after(() => void child.kill("SIGKILL"))
  let output = ""
  child.stdout.on("data", (chunk) => output += chunk)
  await eventually(() => Promise.resolve(output), (printed) => printed.includes("CORE_URL="))
  return { child, exited: once(child, "exit"), port, url: `http://127.0.0.1:${port}`, output: () => output }
}
