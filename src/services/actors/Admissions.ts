/**
 * Takes runs from the queue when there may be room: after an end, after a run was put in, when a probe of a busy core is due, and every
 * second. Any node may admit a run of any other one; the owner dispatches it. A node whose core is busy takes its own tasks only, since it
 * alone knows how many of its runs the core has.
 */
import { Duration, Effect, Latch, Layer } from "effect"
import type { TaskHead } from "../../domain/Task.ts"
import { fromMicros, monotonicMillis, now, plus } from "../../domain/Timestamp.ts"
import { TaskOwnership } from "../cluster/TaskOwnership.ts"
import { CoreBusy } from "../queue/CoreBusy.ts"
import { Settings } from "../settings/Settings.ts"
import { Changes } from "../signals/Changes.ts"
import { PendingWork } from "../store/PendingWork.ts"
import { resumedClass, RunQueue } from "../store/queue/RunQueue.ts"
import * as Metrics from "../telemetry/Metrics.ts"
import * as Worker from "../timing/Worker.ts"
import { TaskActors } from "./TaskActors.ts"

/** Runs of one statement. */
const batch = 128
/**
 * Runs of the first statement without a limit, doubled with each one: the core may have been busy before this node started, or still be, and
 * refuses them. The next ones wait for an answer to those before.
 */
const firstBatch = 8
/** The longest in milliseconds: their tasks may have ended before they were sent. */
const answerPatience = 1000
/** The pause while another node admits, or the core answers. */
const retryPause = Duration.millis(20)
/** Between two admissions because of changes of other nodes. */
const remotePause = Duration.millis(50)
/** Milliseconds between searches of the whole queue: a search from the floor misses what was committed late. */
const wholeInterval = 1000

const classes = resumedClass + 1
const lowest = Array.from({ length: classes }, () => 0)

/** The creation of the task, or the answer that resumed it. */
const waitingSince = ({ deadline, lastEventAt, maxExecutionTime, status }: TaskHead) =>
  status === "pending" || lastEventAt === null
    ? plus(deadline, Duration.negate(Duration.seconds(maxExecutionTime)))
    : lastEventAt

export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const queue = yield* RunQueue
  const actors = yield* TaskActors
  const busy = yield* CoreBusy
  const ownership = yield* TaskOwnership
  const changes = yield* Changes
  const { sweepInterval } = yield* Settings
  const pendingWork = yield* PendingWork

  let floor: ReadonlyArray<number> = lowest
  let servedAt = lowest.map(fromMicros)
  let searchedWholeAt = -Infinity
  let size = firstBatch
  let sent = { ended: -1, at: -Infinity }

  const begin = (head: TaskHead) => ownership.isMine(head.uuid) ? actors.ensure(head) : changes.publish(head.uuid, head)

  /** Returns how long until the next one; undefined when another signal has to come first. */
  const admitOnce = Effect.gen(function*() {
    const at = yield* now
    const isTentative = !busy.isLimited && !busy.isBusy()
    const most = Math.min(busy.room(at), isTentative ? size : batch)
    if (most <= 0) return undefined
    const millis = yield* monotonicMillis
    if (isTentative && busy.ended() === sent.ended && millis - sent.at < answerPatience) return retryPause
    const isWhole = millis - searchedWholeAt >= wholeInterval
    const admission = busy.beginAdmission()
    const { heads, outcome, ...next } = yield* queue.admit({
      at,
      most,
      limits: busy.limits,
      shards: busy.isBusy() || !busy.isLimited ? ownership.shards() : undefined,
      floor: isWhole ? lowest : floor,
      servedAt
    })
    floor = next.floor
    servedAt = [...next.servedAt]
    if (isWhole && outcome !== "busy") searchedWholeAt = millis
    for (const head of heads) Metrics.queueWait.record((at - waitingSince(head)) / 1_000_000)
    if (heads.length > 0) sent = { ended: busy.ended(), at: millis }
    yield* Effect.forEach(heads, begin, { discard: true })
    switch (outcome) {
      case "busy":
        return retryPause
      case "more":
        // Those that it found are locked.
        if (heads.length === 0) return retryPause
        if (!isTentative || size === batch) return Duration.zero
        size *= 2
        return retryPause
      case "empty":
        size = firstBatch
        yield* admission.emptied(yield* now)
        return undefined
      case "full":
        size = firstBatch
        yield* admission.blocked(yield* now)
        return undefined
    }
  })

  const admit = Effect.gen(function*() {
    for (let pause = yield* admitOnce; pause !== undefined; pause = yield* admitOnce) {
      if (!Duration.isZero(pause)) yield* Effect.sleep(pause)
    }
  })

  if (!busy.isLimited && ownership.shards() !== undefined) {
    // Limits of operators hold over all nodes too, and each node admits its own tasks.
    const changed = Latch.makeUnsafe()
    yield* changes.observe(() => changed.openUnsafe())
    const follow = Effect.sync(() => {
      changed.closeUnsafe()
      busy.poke()
    })
    yield* Effect.forkScoped(Effect.forever(
      Effect.andThen(changed.await, Effect.andThen(Effect.sleep(remotePause), follow))
    ))
  }

  const demand = pendingWork.of("queue")
  yield* Worker.make({
    name: "the admission of runs",
    runOnce: admit,
    interval: Effect.map(now, (at) => {
      const probeAt = busy.probeAt()
      return probeAt === undefined || probeAt <= at
        ? sweepInterval
        : Duration.min(sweepInterval, Duration.millis(Math.ceil((probeAt - at) / 1000)))
    }),
    demand: { ...demand, isDue: Effect.suspend(() => busy.isBusy() ? Effect.succeed(true) : demand.isDue) },
    wake: busy.wake
  })
}))
