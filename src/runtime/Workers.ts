/**
 * `WORKERS`: the service as several processes of this machine behind one port, as a cluster of their own on the same database. The first
 * process serves nothing: it starts the workers and the embedded database, starts a worker again that has ended, and ends them all. A
 * worker that dies loses nothing, as any node of a cluster: the others take its tasks over.
 */
import { Deferred, Duration, Effect, Redacted, Schema } from "effect"
import cluster, { type Worker } from "node:cluster"
import { createServer } from "node:net"
import * as Banner from "./Banner.ts"
import { ClusterPortError } from "./cluster/ClusterPort.ts"
import type { AppConfig } from "./config/AppConfig.ts"
import { toEnvironment, type WorkerAssignment } from "./config/WorkerAssignment.ts"
import { freePorts } from "./node/LocalPort.ts"
import * as EmbeddedPostgres from "./postgres/EmbeddedPostgres.ts"

/** A worker that has ended soon after its start is started again after this pause. */
const pause = Duration.seconds(5)

/** Longer than a node needs to drain. */
const drainTimeout = Duration.seconds(30)

class WorkerFailed extends Schema.TaggedError<WorkerFailed>()("WorkerFailed", { message: Schema.String }) {}

class PortInUse extends Schema.TaggedError<PortInUse>()("ServeError", { cause: Schema.Defect() }) {}

/** The system lets any processes share a port that ask for it: a second service must not get the requests of this one. */
const requireFree = (host: string, port: number) =>
  Effect.callback<void, PortInUse>((resume) => {
    const server = createServer()
    server.once("error", (cause) => resume(Effect.fail(new PortInUse({ cause }))))
    server.listen({ host, port }, () => server.close(() => resume(Effect.void)))
  })

/** Waits until a worker has ended, and returns how. */
const ended = (worker: Worker) =>
  Effect.callback<string>((resume) => {
    const end = (code: number | null, signal: string | null) => resume(Effect.succeed(signal ?? `exit code ${code}`))
    if (worker.isDead()) end(worker.process.exitCode, worker.process.signalCode)
    else {
      worker.once("exit", end)
      // A process that could not be made has no exit.
      worker.on("error", (error) => worker.process.pid === undefined && end(null, error.message))
    }
  })

/** The ports of the workers of this machine, which others may take while a worker is away. */
const makePorts = Effect.fnUntraced(function*({ cluster: configured, workers }: AppConfig) {
  const host = configured?.host ?? "127.0.0.1"
  const all = configured === undefined
    ? yield* freePorts(2 * workers)
    : Array.from({ length: 2 * workers }, (_, index) => configured.port + index)
  const inCluster = all.slice(0, workers)
  const own = all.slice(workers)
  if (configured !== undefined) {
    yield* Effect.forEach(all, (port) => requireFree(host, port), { discard: true }).pipe(
      Effect.mapError(({ cause }) => new ClusterPortError({ cause }))
    )
  }
  const areFree = (index: number) =>
    Effect.isSuccess(Effect.all([requireFree(host, own[index]!), requireFree(host, inCluster[index]!)]))
  return {
    of: (index: number) => ({ cluster: { host, port: inCluster[index]! }, ownPort: own[index]!, ports: own }),
    areFree,
    /** Those that an operator has set stay. The other workers learn the port of the internal routes. */
    renew: Effect.fnUntraced(function*(index: number) {
      if (configured !== undefined) return
      // One of a worker that is being started again looks free.
      const assigned = new Set([...inCluster, ...own])
      const [first, second] = (yield* freePorts(2 + assigned.size)).filter((port) => !assigned.has(port))
      inCluster[index] = first!
      own[index] = second!
      for (const worker of Object.values(cluster.workers ?? {})) worker?.send({ ports: own })
    })
  }
})

const start = (assignment: WorkerAssignment) =>
  Effect.acquireRelease(
    Effect.sync(() => cluster.fork(toEnvironment(assignment))),
    (worker) =>
      Effect.suspend(() => {
        if (worker.process.pid === undefined) return Effect.void
        worker.process.kill("SIGTERM")
        // A blocked event loop sees no signal that it could handle.
        return Effect.timeoutOrElse(ended(worker), {
          duration: drainTimeout,
          orElse: () => Effect.andThen(Effect.sync(() => void worker.process.kill("SIGKILL")), ended(worker))
        })
      })
  )

/** Runs a worker, and again whenever it has ended. Fails when it ends before it was ready for the first time. */
const keep = Effect.fnUntraced(function*(
  number: number,
  assign: Effect.Effect<WorkerAssignment>,
  areFree: Effect.Effect<boolean>,
  isReady: Deferred.Deferred<void>
) {
  for (let attempt = 1;; attempt++) {
    const begun = performance.now()
    const assignment = yield* assign
    const how = yield* Effect.scoped(Effect.flatMap(start(assignment), (worker) => {
      worker.once("message", () => Deferred.doneUnsafe(isReady, Effect.void))
      return ended(worker)
    }))
    if (!(yield* Deferred.isDone(isReady))) {
      if (attempt === 1 && !(yield* areFree)) continue
      return yield* new WorkerFailed({ message: `Worker ${number} did not start (${how})` })
    }
    yield* Effect.annotateLogs(Effect.logError("a worker has ended, and is started again"), { worker: number, how })
    if (performance.now() - begun < Duration.toMillis(pause)) yield* Effect.sleep(pause)
  }
})

/** Runs the workers until the process is stopped. */
export const supervise = Effect.fnUntraced(function*(config: AppConfig) {
  const { dataDir, databaseUrl, host, internalPort, port, workers } = config
  for (const shared of internalPort === undefined ? [port] : [port, internalPort]) yield* requireFree(host, shared)
  const ports = yield* makePorts(config)
  const embedded = databaseUrl === undefined ? yield* EmbeddedPostgres.start(dataDir) : undefined
  if (embedded !== undefined) yield* Effect.logInfo(`Embedded Postgres on ${embedded.directory}`)
  const running = Array.from({ length: workers }, (_, index) => {
    const isReady = Deferred.makeUnsafe<void>()
    const assign = Effect.gen(function*() {
      if (!(yield* ports.areFree(index))) yield* ports.renew(index)
      return {
        number: index + 1,
        count: workers,
        databaseUrl: embedded === undefined ? null : Redacted.value(embedded.url),
        ...ports.of(index)
      }
    })
    return { kept: keep(index + 1, assign, ports.areFree(index), isReady), isReady: Deferred.await(isReady) }
  })
  const announce = Effect.andThen(Effect.all(running.map(({ isReady }) => isReady)), Banner.print(config))
  yield* Effect.all([...running.map(({ kept }) => kept), announce], { concurrency: "unbounded", discard: true })
}, Effect.scoped)

/** Tells the first process that this worker serves requests, and learns new ports of the others. */
export const reportReady = ({ ports }: WorkerAssignment) =>
  Effect.sync(() => {
    process.on("message", (message: { readonly ports: ReadonlyArray<number> }) =>
      void ports.splice(0, ports.length, ...message.ports))
    process.send?.("ready")
  })
