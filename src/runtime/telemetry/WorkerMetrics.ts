/** The metrics of all processes of `WORKERS` as one page: whichever is asked, it asks the others. */
import { Duration, Effect, Redacted } from "effect"
import type { WorkerAssignment } from "../config/WorkerAssignment.ts"

/** One that does not answer is left out. */
const timeout = Duration.seconds(2)

interface Family {
  /** Its `# HELP` and `# TYPE`. */
  readonly head: Set<string>
  readonly samples: Array<string>
}

/** Joins pages of Prometheus's text format. Each sample gets the number of its worker as a label. */
export const join = (pages: ReadonlyArray<readonly [worker: number, page: string]>): string => {
  const families = new Map<string, Family>()
  for (const [worker, page] of pages) {
    let family: Family = { head: new Set(), samples: [] }
    for (const line of page.split("\n")) {
      const name = /^# (?:HELP|TYPE) (\S+)/.exec(line)?.[1]
      if (name !== undefined) {
        family = families.get(name) ?? { head: new Set(), samples: [] }
        families.set(name, family)
        family.head.add(line)
      } else if (line !== "") {
        family.samples.push(
          line.replace(/^([\w:]+)({?)/, (_, of, more) => `${of}{worker="${worker}"${more === "" ? "}" : ","}`)
        )
      }
    }
  }
  return [...families.values()].flatMap(({ head, samples }) => [...head, ...samples, ""]).join("\n")
}

/** Returns a function that adds the metrics of the others to those of this worker. */
export const make = (
  { cluster, number, ports }: WorkerAssignment,
  [token]: readonly [Redacted.Redacted, ...Array<unknown>]
) => {
  const host = cluster.host.includes(":") ? `[${cluster.host}]` : cluster.host
  const headers = { authorization: `Bearer ${Redacted.value(token)}` }
  const ask = (port: number) =>
    Effect.tryPromise((signal) =>
      fetch(`http://${host}:${port}/internal/metrics`, { headers, signal }).then((answer) =>
        answer.ok ? answer.text() : ""
      )
    ).pipe(Effect.timeout(timeout), Effect.orElseSucceed(() => ""))
  return (own: string): Effect.Effect<string> =>
    Effect.map(
      Effect.forEach(ports, (port, index) =>
        Effect.map(
          index + 1 === number ? Effect.succeed(own) : ask(port),
          (page) => [index + 1, page] as const
        ), { concurrency: "unbounded" }),
      join
    )
}
