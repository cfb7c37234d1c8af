/** Python of the machine: the system's own, which has Debian's packages. */
import { execFile, type ExecFileException, execFileSync } from "node:child_process"
import * as fs from "node:fs"

/** `PYTHON` overrides it. */
export const python = process.env["PYTHON"] ?? (fs.existsSync("/usr/bin/python3") ? "/usr/bin/python3" : "python3")

const succeeds = (args: ReadonlyArray<string>) => {
  try {
    execFileSync(python, args, { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

/** In CI its absence is an error of the tests; elsewhere they are skipped, with a message. */
export const hasPython = succeeds(["-c", "import sys; sys.exit(sys.version_info < (3, 9))"])

if (!hasPython) {
  const message = "There is no Python 3.9 or later: the tests of the Python client need one"
  if (process.env["CI"] !== undefined) throw new Error(message)
  process.stderr.write(`${message}, and are skipped\n`)
}

export const hasModules = (...names: ReadonlyArray<string>) =>
  hasPython && succeeds(["-c", `import ${names.join(", ")}`])

interface Ran {
  readonly status: ExecFileException["code"]
  readonly output: string
}

/** Ends also when the program fails. */
export const runPython = (
  args: ReadonlyArray<string>,
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> }
): Promise<Ran> =>
  new Promise((resolve) => {
    const options = { cwd, timeout: 180_000, env: { PATH: process.env["PATH"], PYTHONDONTWRITEBYTECODE: "1", ...env } }
    execFile(python, args, options, (error, stdout, stderr) =>
      resolve({ status: error === null ? 0 : error.code ?? -1, output: stdout + stderr }))
  })
