/** Runs a command of the command line until it ends. */
import { execFile } from "node:child_process"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../..")

export interface Ended {
  /** Null when the command was killed after `timeout`. */
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** Kills the command by SIGTERM after `timeout` milliseconds, and by SIGKILL if it ignores that. */
export const runToEnd = (
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  timeout = 30_000
): Promise<Ended> =>
  new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ["src/runtime/cli/Cli.ts", ...args],
      { cwd: root, env: { PATH: process.env["PATH"], ...env }, timeout },
      (error, out, err) => {
        clearTimeout(last)
        const code = error === null ? 0 : typeof error.code === "number" ? error.code : null
        resolve({ code, out: out.trim(), err: err.trim() })
      }
    )
    const last = setTimeout(() => child.kill("SIGKILL"), timeout + 5000)
  })

/** The result of one check of `doctor`, as in "FAIL connect ECONNREFUSED". */
export const diagnose = async (env: Readonly<Record<string, string>>, check: string) => {
  const { out } = await runToEnd(["doctor", "--json"], env)
  const findings: ReadonlyArray<
    { readonly check: string; readonly ok: boolean; readonly says: string; readonly warning?: boolean }
  > = JSON.parse(out)
  const found = findings.find((finding) => finding.check === check)
  if (found === undefined) throw new Error(`doctor has no check ${check}: ${out}`)
  return `${!found.ok ? "FAIL" : found.warning === true ? "warn" : "ok"} ${found.says}`
}
