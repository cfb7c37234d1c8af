/** Runs `conformance core` against a core, and returns its cases. */
import { spawn } from "node:child_process"
import * as path from "node:path"
import { text } from "node:stream/consumers"
import { commandLine, internalToken } from "./Service.ts"

const root = path.resolve(import.meta.dirname, "../..")

export const conformance = async (coreUrl: string, coreToken: string) => {
  const tokens = ["--core-token", coreToken, "--event-token", internalToken]
  const args = [commandLine, "conformance", "core", "--url", coreUrl, ...tokens, "--json"]
  const child = spawn(process.execPath, [...args, "--tools-assistant", "1"], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"]
  })
  const { cases } = JSON.parse(await text(child.stdout))
  return cases as ReadonlyArray<{ readonly outcome: string; readonly message: string | null }>
}
