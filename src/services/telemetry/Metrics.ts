/**
 * Every metric, defined once; the table in src/runtime/deployment/README.md is generated from `definitions`, and a test compares the
 * alert rules with them.
 */
import { Clock, Effect, type Exit, Struct } from "effect"
import { targetOf, TaskEvent } from "../../domain/Task.ts"
import { counter, gauge, histogram, total } from "./Instruments.ts"

export { definitions, initialize, prometheusName } from "./Instruments.ts"

/** Seconds. The list is short, because each boundary adds a line for every route and status. */
const httpSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10]
const latenessSeconds = [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300]

/** Records the duration of an effect, whether it succeeds, fails or is interrupted. */
export const timed = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  record: (seconds: number, exit: Exit.Exit<A, E>) => void
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const clock = fiber.getRef(Clock.Clock)
    const startedAt = clock.monotonicTimeNanosUnsafe()
    return Effect.onExitPrimitive(effect, (exit) => {
      record(Number(clock.monotonicTimeNanosUnsafe() - startedAt) / 1e9, exit)
      return undefined
    })
  })

export const httpRequests = histogram({
  name: "http.server.request.duration",
  meaning: "time from a request to its response headers; the waiting time of long polls is included",
  labels: ["http.request.method", "http.route", "http.response.status_code"]
}, httpSeconds)

const statusClasses = ["1xx", "2xx", "3xx", "4xx", "5xx"] as const

export const httpResponses = counter({
  name: "http.server.responses",
  meaning: "responses by class of status (1xx to 5xx)",
  labels: ["http.response.status_class"],
  initial: statusClasses.map((statusClass) => [statusClass] as const)
})

export const transitions = counter({
  name: "task.transitions",
  meaning: "task events committed by this node, by event and resulting status",
  labels: ["event", "status"],
  initial: Struct.keys(TaskEvent.cases).map((event) => [event, targetOf(event)] as const)
})

export const deadlineLateness = histogram({
  name: "task.deadline.lateness",
  meaning: "time from a deadline to the commit of its event",
  labels: ["event"],
  initial: [["AcceptanceExpired"], ["TimeLimitExceeded"]]
}, latenessSeconds)

export const actors = gauge({
  name: "task.active",
  meaning: "live tasks of this node that run, or whose deadline is near",
  labels: []
})

export const liveTasks = gauge({
  name: "task.live",
  meaning: "live tasks in the database, of all nodes; refreshed at most every 30 s",
  labels: ["status"]
})

export const deadlineOverdue = gauge({
  name: "task.deadline.overdue",
  unit: "seconds",
  meaning: "time since the earliest deadline of all live tasks passed, 0 when none has; refreshed at most every 30 s",
  labels: []
})

export const queueWaiting = gauge({
  name: "task.queue.waiting",
  meaning:
    "runs that wait for room at the core, of all nodes, by assistant (the first 50 of a process, others as `other`); refreshed at most every 5 s",
  labels: ["assistant"],
  initial: [["other"]]
})

export const queueRunning = gauge({
  name: "task.queue.running",
  meaning: "runs that the core has, of all nodes, by assistant as above; refreshed at most every 5 s",
  labels: ["assistant"],
  initial: [["other"]]
})

export const queueOldest = gauge({
  name: "task.queue.oldest",
  unit: "seconds",
  meaning: "how long the oldest run has waited for room, 0 when none waits; refreshed at most every 5 s",
  labels: []
})

export const coreBusyFor = gauge({
  name: "core.busy.duration",
  unit: "seconds",
  meaning: "how long the core has said to this node that it has no room, 0 while it has",
  labels: []
})

export const coreCalls = histogram({
  name: "core.call.duration",
  meaning: "duration of calls to the processing core",
  labels: ["operation", "outcome"],
  initial: ["accepted", "refused", "unavailable", "busy"].map((outcome) => ["start", outcome] as const)
}, httpSeconds)

export const coreBusy = counter({
  name: "core.busy",
  meaning: "answers of the core that it has no room for a run, which then waits in the queue",
  labels: [],
  initial: [[]]
})

export const queueWait = histogram({
  name: "task.queue.wait",
  meaning:
    "time that a run waited in the queue before it was dispatched, from the creation of its task or from its answer",
  labels: [],
  initial: [[]]
}, latenessSeconds)

export const coreSilence = gauge({
  name: "core.silence",
  unit: "seconds",
  meaning: "`silence_seconds` that the core declared last, 0 when it declares none",
  labels: []
})

export const coreUnreachable = gauge({
  name: "core.unreachable",
  meaning:
    "1 while this node does not reach the core: its last call got no answer or, while nothing is heard of a run, no connection can be opened",
  labels: []
})

export const stuckRuns = gauge({
  name: "core.runs.stuck",
  meaning: "runs of this node of which it has heard nothing for `STUCK_AFTER`",
  labels: []
})

export const silentRuns = gauge({
  name: "core.runs.silent",
  meaning: "runs of this node that were dispatched again because they were silent, and still are",
  labels: []
})

export const redispatches = counter({
  name: "core.runs.handed_over",
  meaning: "dispatches of silent runs: the core lost them, or reports nothing",
  labels: [],
  initial: [[]]
})

export const webhookAttempts = histogram({
  name: "webhook.attempt.duration",
  meaning: "duration of webhook attempts, by outcome",
  labels: ["outcome"],
  initial: [["delivered"]]
}, [...httpSeconds, 15])

export const webhookLateness = histogram({
  name: "webhook.attempt.lateness",
  meaning: "time from the moment an attempt was due to its start",
  labels: [],
  initial: [[]]
}, latenessSeconds)

export const webhookOverdue = gauge({
  name: "webhook.overdue",
  unit: "seconds",
  meaning: "time since the oldest webhook that no node attempts was due, 0 when none is; refreshed at most every 30 s",
  labels: []
})

export const webhooksAbandoned = counter({
  name: "webhook.attempts.abandoned",
  meaning: "attempts without a recorded outcome when their lease expired: the node stopped, or the database was away",
  labels: [],
  initial: [[]]
})

export const clusterNotifications = counter({
  name: "cluster.notifications",
  meaning: "task changes sent to other nodes and received from them, by direction (sent, received)",
  labels: ["direction"],
  initial: [["sent"], ["received"]]
})

export const notificationsArrive = gauge({
  name: "cluster.notifications.arrive",
  meaning:
    "1 while notifications of other nodes can arrive, 0 while this node polls for their changes and is up to 5 s late",
  labels: []
})

export const shardReassignments = counter({
  name: "cluster.shard.reassignments",
  meaning: "shards that this node gained or lost, by direction (gained, lost)",
  labels: ["direction"],
  initial: [["gained"], ["lost"]]
})

export const revocationAge = gauge({
  name: "revocation.sync.age",
  unit: "seconds",
  meaning: "time since this node last read the revoked tokens; from 30 s on it checks each token in the database",
  labels: []
})

export const clockOffset = gauge({
  name: "clock.offset",
  unit: "seconds",
  meaning: "the machine's wall clock minus the database's clock, which the node follows",
  labels: []
})

export const clockUncertainty = gauge({
  name: "clock.uncertainty",
  unit: "seconds",
  meaning: "maximum difference between the node's time and the database's clock; above 1 s the node is not ready",
  labels: []
})

export const clockSampleAge = gauge({
  name: "clock.sample.age",
  unit: "seconds",
  meaning: "age of the current sample of the database's clock",
  labels: []
})

export const databaseConnections = gauge({
  name: "db.client.connection.count",
  meaning: "open connections to the database",
  labels: []
})

export const databaseAvailable = gauge({
  name: "db.client.available",
  meaning: "1 while the database can do its work for this node, 0 while /readyz reports a problem of the database",
  labels: []
})

export const databaseWaiting = gauge({
  name: "db.client.connection.pending_requests",
  meaning: "statements that wait for a database connection",
  labels: []
})

const eventLoopDelay = (statistic: string, what: string) =>
  gauge({
    name: `nodejs.eventloop.delay.${statistic}`,
    unit: "seconds",
    meaning: `${what} delay that the event loop adds to a timer, over the last 10 s or since the last collection`,
    labels: []
  })
export const eventLoopDelays = {
  p50: eventLoopDelay("p50", "median"),
  p99: eventLoopDelay("p99", "99th percentile"),
  max: eventLoopDelay("max", "maximum")
}

export const eventLoopUtilization = gauge({
  name: "nodejs.eventloop.utilization",
  unit: "ratio",
  meaning: "share of time that the event loop was busy, over the same period",
  labels: []
})

export const memory = gauge({
  name: "process.memory.usage",
  unit: "bytes",
  meaning: "physical memory of the process",
  labels: []
})

export const memoryInUse = gauge({
  name: "memory.in_use",
  unit: "bytes",
  meaning:
    "large texts that this node holds, by budget (users, core) and use; the sum of a budget is at most its limit",
  labels: ["budget", "use"]
})

export const memoryLimit = gauge({
  name: "memory.limit",
  unit: "bytes",
  meaning: "the most of that, by the same labels: the sum is what a node may hold of large texts",
  labels: ["budget", "use"]
})

export const memoryWaiting = gauge({
  name: "memory.waiting",
  meaning: "requests and deliveries that wait for memory, by the same labels",
  labels: ["budget", "use"]
})

export const heap = gauge({ name: "v8js.memory.heap.used", unit: "bytes", meaning: "used heap memory", labels: [] })

export const cpu = total({
  name: "process.cpu.time",
  unit: "seconds",
  meaning: "processor time of the process",
  labels: ["cpu.mode"]
})
