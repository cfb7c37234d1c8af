/** The machine and the versions, which decide a figure besides the code. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { arch, cpus, loadavg, platform, release, totalmem } from "node:os"

const versionOf = (name: string): string =>
  JSON.parse(fs.readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url), "utf8")).version

const lineOf = (program: string, ...args: ReadonlyArray<string>) => {
  const { status, stdout } = spawnSync(program, args, { encoding: "utf8" })
  return status === 0 ? stdout.trim() : null
}

/** `postgres` is its version, `packages` are those of npm that take part. */
export const machine = (postgres: string, packages: ReadonlyArray<string>) => ({
  at: new Date().toISOString(),
  commit: lineOf("git", "describe", "--always", "--dirty"),
  cpus: `${cpus().length} × ${cpus()[0]?.model.trim() ?? arch()}`,
  memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
  system: `${platform()} ${release()}`,
  /** Of the last minute: above 1 others use the machine too. */
  load: Number((loadavg()[0] ?? 0).toFixed(2)),
  node: process.versions.node,
  postgres,
  redis: /v=(\S+)/.exec(lineOf("redis-server", "--version") ?? "")?.[1] ?? null,
  ...Object.fromEntries(packages.map((name) => [name, versionOf(name)]))
})

export const linesOf = (found: ReturnType<typeof machine>) =>
  Object.entries(found).map(([name, value]) => `${name.padEnd(16)} ${value ?? "not installed"}`).join("\n")
