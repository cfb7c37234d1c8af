/** A database outage under 300 readers and some creators. */
import { Proxy } from "../../chaos/Proxy.ts"
import { pause } from "../../kit/pause.ts"
import { ScriptedCore } from "../../kit/ScriptedCore.ts"
import { mint, Service } from "../../kit/Service.ts"
import { startPostgres } from "../../kit/standalone.ts"
import { quantile } from "../../kit/statistics.ts"
import { type Call, startCallers } from "./Callers.ts"

export const kinds = ["refused", "black hole", "frozen", "immediate restart"] as const
export type Kind = typeof kinds[number]

export interface Options {
  readonly readers: number
  readonly creators: number
  /** Milliseconds between a response and the caller's next call. */
  readonly pause: number
  /** Milliseconds of each of the three phases. An immediate restart takes as long as it takes. */
  readonly before: number
  readonly outage: number
  readonly after: number
}

export interface Report {
  readonly kind: Kind
  /** Response times of `/healthz` in milliseconds from the start of the outage: 99th percentile and maximum. */
  readonly health: { readonly p99: number; readonly worst: number }
  /** Maximum response time before the outage in milliseconds, which shows how busy the machine is. */
  readonly slowestBefore: number
  /**
   * Calls that ended after the outage began and started before its end: their statuses, and the maximum response time in
   * milliseconds, of all and of those that started two seconds after its beginning or later.
   */
  readonly away: {
    readonly statuses: Readonly<Record<number, number>>
    readonly slowest: number
    readonly slowestLater: number
  }
  /** Successful responses per second before the outage, and from one second after its end. */
  readonly before: number
  readonly after: number
  /** Milliseconds from the end of the outage to the first successful response. */
  readonly firstAnswer: number
  /** Bytes of the node's log. */
  readonly logged: number
}

/** Milliseconds in which a node notices that a near database is gone. */
export const noticed = 2000

type Postgres = Awaited<ReturnType<typeof startPostgres>>

/** Begins an outage; the returned function ends it. */
const begin: Readonly<Record<Kind, (proxy: Proxy, postgres: Postgres) => Promise<() => unknown>>> = {
  refused: (proxy) => proxy.refuse(),
  "black hole": async (proxy) => proxy.swallow(),
  frozen: async (_, postgres) => {
    postgres.signal("SIGSTOP")
    return () => postgres.signal("SIGCONT")
  },
  "immediate restart": async (_, postgres) => {
    await postgres.restartImmediately()
    return () => {}
  }
}

const create = JSON.stringify({ assistant_id: 1, input: [{ type: "text", text: "1 + 1" }] })

/** Milliseconds. */
const longest = (calls: ReadonlyArray<Call>) => calls.reduce((most, { duration }) => Math.max(most, duration), 0)

export const measureOutage = async (kind: Kind, options: Options): Promise<Report> => {
  const postgres = await startPostgres()
  const proxy = await Proxy.before(postgres.url)
  const core = await new ScriptedCore().listen()
  const service = await Service.start({ DATABASE_URL: proxy.urlOf(postgres.url), CORE_URL: core.url })
  try {
    const tokens = await Promise.all(
      Array.from({ length: options.readers + options.creators }, (_, n) => mint(`u${n}`))
    )
    const { body } = await service.create(tokens[0]!, "1 + 1")
    const read = { method: "GET", path: `/api/tasks/${body.uuid}` }
    const readers = startCallers(service.url, options.readers, () => tokens[0]!, () => read, options.pause)
    // Each soon has five active tasks; after that every create reads the database and is rejected.
    const creators = startCallers(
      service.url,
      options.creators,
      (caller) => tokens[options.readers + caller]!,
      () => ({ method: "POST", path: "/api/tasks", body: create }),
      options.pause
    )
    const health = startCallers(service.url, 1, () => "", () => ({ method: "GET", path: "/healthz" }), 20)
    const warmUp = 1000
    await pause(warmUp + options.before)
    const loggedBefore = service.output.length
    const from = performance.now()
    const end = await begin[kind](proxy, postgres)
    if (kind !== "immediate restart") await pause(options.outage)
    const until = performance.now()
    await end()
    await pause(1000 + options.after)
    const stopped = performance.now()
    const calls = await readers.stop()
    const created = await creators.stop()
    const healthTimes = (await health.stop())
      .filter(({ startedAt }) => startedAt > from)
      .map(({ duration, status }) => status === 200 ? duration : 30_000)
      .toSorted((one, other) => one - other)
    const rate = (start: number, stop: number) =>
      calls.filter(({ duration, startedAt, status }) =>
        status === 200 && startedAt + duration >= start && startedAt + duration < stop
      ).length / (stop - start) * 1000
    const away = [...calls, ...created].filter(({ duration, startedAt }) =>
      startedAt + duration >= from && startedAt < until
    )
    const statuses: Record<number, number> = {}
    for (const { status } of away) statuses[status] = (statuses[status] ?? 0) + 1
    const earlier = calls.filter(({ duration, startedAt }) =>
      startedAt > from - options.before && startedAt + duration < from
    )
    const isGoodAgain = ({ startedAt, status }: Call) => startedAt >= until && status === 200
    const firstGood = calls.filter(isGoodAgain).reduce(
      (first, { duration, startedAt }) => Math.min(first, startedAt + duration),
      Infinity
    )
    return {
      kind,
      health: { p99: quantile(healthTimes, 0.99), worst: healthTimes.at(-1) ?? Infinity },
      slowestBefore: longest(earlier),
      away: {
        statuses,
        slowest: longest(away),
        slowestLater: longest(away.filter(({ startedAt }) => startedAt > from + noticed))
      },
      before: rate(from - options.before, from),
      after: rate(until + 1000, stopped),
      firstAnswer: firstGood - until,
      logged: service.output.length - loggedBefore
    }
  } finally {
    await service.stop("SIGKILL")
    await core.close()
    await proxy.close()
    await postgres.stop()
  }
}
