/**
 * Group commit: requests made in one turn of the event loop share a statement, and so one round trip and one WAL flush. At most
 * two statements run at a time, and the next batch gathers meanwhile. There is no timer: a single request is sent at the end
 * of its turn.
 */
import { Array, Cause, Effect, Exit, Order, type Tracer } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import * as Tracing from "../telemetry/Tracing.ts"

/** Statements in flight: one is planned and flushed while the next batch gathers. */
export const concurrency = 2

/** More rows a statement save nothing measurable, and delay the first. */
export const maxBatch = 64

/** Waiting requests of one batcher; more are refused, as `AdmissionGate` refuses statements. */
const maxWaiting = 10_000

export interface Options<Request, Answer> {
  /** One statement. Its answers are in the order of the requests, which is that of `lockOf`. */
  readonly run: (requests: ReadonlyArray<Request>) => Effect.Effect<ReadonlyArray<Answer>, StoreUnavailable>
  /** Requests with the same key never share a statement and keep their order. Without it, requests are independent. */
  readonly keyOf?: (request: Request) => string
  /** Rows are locked in this order by every statement of every node, which prevents deadlocks. */
  readonly lockOf?: (request: Request) => string
  /** Requests with a statement of their own. At most one of these runs at a time, so that they never delay the others. */
  readonly isAlone?: (request: Request) => boolean
}

interface Waiting<Request, Answer> {
  readonly request: Request
  readonly isAlone: boolean
  readonly key: string | undefined
  readonly span: Tracer.Span | undefined
  readonly answer: (answer: Effect.Effect<Answer, StoreUnavailable>) => void
}

const tooManyWaiting = Effect.fail(new StoreUnavailable({ cause: new Error("Too many requests wait for a statement") }))

/** A fault of the store fails the whole batch. Any other fault may come from one row, so each row is then tried alone. */
const isFaultOfStore = (cause: Cause.Cause<StoreUnavailable>) => {
  const fault = Cause.squash(cause)
  return fault instanceof StoreUnavailable ||
    (SqlError.isSqlError(fault) && fault.reason._tag === "StatementTimeoutError")
}

/** Returns a function that executes one request as part of a batch. */
export const make = <Request, Answer>(options: Options<Request, Answer>) =>
  Effect.map(Effect.context(), (context) => {
    type Item = Waiting<Request, Answer>
    const fork = Effect.runForkWith(context)
    let together: Array<Item> = []
    const alone: Array<Item> = []
    /** By key: the requests behind one that is in `together`, in `alone`, or in a running statement. */
    const queues = new Map<string, Array<Item>>()
    let waiting = 0
    let running = 0
    let isOneAlone = false
    let isScheduled = false

    const run = (batch: ReadonlyArray<Item>) => {
      const statement = Effect.suspend(() => options.run(batch.map(({ request }) => request)))
      const span = batch.find(({ span }) => span !== undefined)?.span
      return Effect.exit(span === undefined ? statement : Effect.withParentSpan(statement, span))
    }

    const attempt = (batch: ReadonlyArray<Item>): Effect.Effect<void> =>
      Effect.flatMap(run(batch), (exit) => {
        if (Exit.isSuccess(exit)) {
          batch.forEach(({ answer }, index) => answer(Effect.succeed(exit.value[index]!)))
        } else if (batch.length === 1 || isFaultOfStore(exit.cause)) {
          for (const { answer } of batch) answer(Effect.failCause(exit.cause))
        } else {
          // Concurrently: a row that waits for a lock must not delay the others again.
          return Effect.forEach(batch, (item) => attempt([item]), { concurrency: "unbounded", discard: true })
        }
        return Effect.void
      })

    const makeReady = (item: Item) => (item.isAlone ? alone : together).push(item)

    const take = (): ReadonlyArray<Item> => {
      const first = isOneAlone ? undefined : alone.shift()
      if (first !== undefined) return [first]
      const batch = together.splice(0, maxBatch)
      const { lockOf } = options
      return lockOf === undefined ? batch : Array.sortWith(batch, ({ request }) => lockOf(request), Order.String)
    }

    const end = (batch: ReadonlyArray<Item>) => {
      running--
      for (const { isAlone, key } of batch) {
        if (isAlone) isOneAlone = false
        if (key === undefined) continue
        const next = queues.get(key)?.shift()
        if (next === undefined) queues.delete(key)
        else makeReady(next)
      }
      schedule()
    }

    const flush = () => {
      isScheduled = false
      while (running < concurrency) {
        const batch = take()
        if (batch.length === 0) return
        waiting -= batch.length
        running++
        isOneAlone ||= batch[0]!.isAlone
        fork(attempt(batch)).addObserver(() => end(batch))
      }
    }

    const schedule = () => {
      if (isScheduled || waiting === 0 || running === concurrency) return
      isScheduled = true
      fork(Effect.andThen(Effect.yieldNow, Effect.sync(flush)))
    }

    const add = (item: Item) => {
      waiting++
      const { key } = item
      const queue = key === undefined ? undefined : queues.get(key)
      if (queue !== undefined) return queue.push(item)
      if (key !== undefined) queues.set(key, [])
      makeReady(item)
      schedule()
    }

    return (request: Request) =>
      Effect.withFiber((fiber) =>
        waiting >= maxWaiting ? tooManyWaiting : Effect.callback<Answer, StoreUnavailable>((answer) => {
          add({
            request,
            isAlone: options.isAlone?.(request) ?? false,
            key: options.keyOf?.(request),
            span: Tracing.currentSpan(fiber),
            answer
          })
        })
      )
  })
