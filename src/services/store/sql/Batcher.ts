/**
 * Group commit: requests made in one turn of the event loop share a statement, and so one round trip and one WAL flush. At most
 * two batches run at a time, and the next one gathers meanwhile. There is no timer: a single request is sent at the end
 * of its turn, or of the last turn in which requests gather.
 */
import { Array, Cause, Effect, Exit, Order, Struct, type Tracer } from "effect"
import { StoreUnavailable } from "../../../domain/StoreUnavailable.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import { isLockTimeout } from "./Queries.ts"

/**
 * Kinds of statements. A request in `batch` shares its statement with others. One in `single` or `large` has a statement of its
 * own.
 */
export type Kind = "batch" | "single" | "large"

/**
 * Statements in flight. A batch is planned and flushed while the next one gathers. A large statement takes many times its size
 * in memory.
 */
export const concurrency: Readonly<Record<Kind, number>> = { batch: 2, single: 8, large: 1 }

const kinds = Struct.keys(concurrency)

/** More rows per statement save nothing measurable, and delay the first. */
export const maxBatch = 64

/** Waiting requests of one batcher; more are refused, as `AdmissionGate` refuses statements. */
const maxWaiting = 10_000

/** Characters of all waiting requests of one batcher. A longer request is accepted when no other waits. */
const maxWaitingLength = 64 * 1024 * 1024

export interface Options<Request, Answer> {
  /** One statement. Returns an answer for each request, in their order; they are sorted by `lockOf` already. */
  readonly run: (requests: ReadonlyArray<Request>) => Effect.Effect<ReadonlyArray<Answer>, StoreUnavailable>
  /** Requests with the same key never share a statement and keep their order. Without it, requests are independent. */
  readonly keyOf?: (request: Request) => string
  /** Rows are locked in this order by every statement of every node, which prevents deadlocks. */
  readonly lockOf?: (request: Request) => string
  /** Without it, every request is in `batch`. */
  readonly kindOf?: (request: Request) => Kind
  /** Characters of a request; without it, 0. */
  readonly lengthOf?: (request: Request) => number
  /** Turns of the event loop in which requests gather; without it, 1. */
  readonly turns?: number
}

interface Waiting<Request, Answer> extends Queued {
  readonly request: Request
  readonly span: Tracer.Span | undefined
  readonly answer: (answer: Effect.Effect<Answer, StoreUnavailable>) => void
}

const tooManyWaiting = Effect.fail(new StoreUnavailable({ cause: new Error("Too many requests wait for a statement") }))

/**
 * A fault of the store fails the whole batch. Any other fault may come from one row, as a lock that another session holds
 * does, so each row is then tried alone.
 */
const isFaultOfStore = (cause: Cause.Cause<StoreUnavailable>) => {
  const error = Cause.squash(cause)
  return error instanceof StoreUnavailable && !isLockTimeout(error)
}

interface Queued {
  readonly kind: Kind
  readonly key: string | undefined
  readonly length: number
}

/** Chooses which requests share the next statement. */
const makeQueue = <Item extends Queued>() => {
  // Arrays: a `Set` through which many items pass keeps their objects alive until V8 collects the old generation (test/bench/README.md).
  const ready: Readonly<Record<Kind, Array<Item>>> = { batch: [], single: [], large: [] }
  const running: Record<Kind, number> = { batch: 0, single: 0, large: 0 }
  /** The requests of each key that wait for an earlier one in `ready` or in a running statement. */
  const behind = new Map<string, Set<Item>>()
  let size = 0
  let length = 0

  const makeReady = (item: Item) => ready[item.kind].push(item)

  /** Returns whether the item was there. */
  const removeReady = (item: Item) => {
    const index = ready[item.kind].indexOf(item)
    if (index >= 0) ready[item.kind].splice(index, 1)
    return index >= 0
  }

  /** The kind of a statement that may run now. */
  const nextKind = () => kinds.find((kind) => ready[kind].length > 0 && running[kind] < concurrency[kind])

  const count = (item: Item, change: 1 | -1) => {
    size += change
    length += change * item.length
  }

  const releaseKey = (key: string | undefined) => {
    if (key === undefined) return
    const [next] = behind.get(key) ?? []
    if (next === undefined) return behind.delete(key)
    behind.get(key)?.delete(next)
    makeReady(next)
  }

  return {
    isReady: () => nextKind() !== undefined,
    isFull: (more: number) => size >= maxWaiting || (size > 0 && length + more > maxWaitingLength),
    add: (item: Item) => {
      count(item, 1)
      const { key } = item
      const queue = key === undefined ? undefined : behind.get(key)
      if (queue !== undefined) return queue.add(item)
      if (key !== undefined) behind.set(key, new Set())
      makeReady(item)
    },
    /** Removes a waiting request; does nothing after it was taken. */
    remove: (item: Item) => {
      const { key } = item
      if (removeReady(item)) releaseKey(key)
      else if (key === undefined || behind.get(key)?.delete(item) !== true) return
      count(item, -1)
    },
    /** The requests of the next statement; none while all have to wait. */
    take: (): ReadonlyArray<Item> => {
      const kind = nextKind()
      if (kind === undefined) return []
      running[kind]++
      const batch = ready[kind].splice(0, kind === "batch" ? maxBatch : 1)
      for (const item of batch) count(item, -1)
      return batch
    },
    /** Releases the requests of a statement that has ended. */
    release: (batch: ReadonlyArray<Item>) => {
      if (batch[0] !== undefined) running[batch[0].kind]--
      for (const { key } of batch) releaseKey(key)
    }
  }
}

/** Executes one statement and answers its requests. */
const execute = <Request, Answer>(
  { run }: Options<Request, Answer>,
  batch: ReadonlyArray<Waiting<Request, Answer>>
): Effect.Effect<void> => {
  const statement = Effect.suspend(() => run(batch.map(({ request }) => request)))
  const span = batch.find(({ span }) => span !== undefined)?.span
  return Effect.flatMap(
    Effect.exit(span === undefined ? statement : Effect.withParentSpan(statement, span)),
    (exit) => {
      if (Exit.isFailure(exit) && batch.length > 1 && !isFaultOfStore(exit.cause)) {
        // Concurrently: a row that waits for a lock must not delay the others again.
        return Effect.forEach(batch, (item) => execute({ run }, [item]), { concurrency: "unbounded", discard: true })
      }
      batch.forEach(({ answer }, index) => answer(Exit.map(exit, (answers) => answers[index]!)))
      return Effect.void
    }
  )
}

/** Returns a function that executes one request as part of a batch. */
export const make = <Request, Answer>(options: Options<Request, Answer>) =>
  Effect.map(Effect.context(), (context) => {
    const { keyOf, kindOf, lengthOf, lockOf, turns = 1 } = options
    const fork = Effect.runForkWith(context)
    const gather = Array.replicate(Effect.yieldNow, turns).reduce((before, turn) => Effect.andThen(before, turn))
    const queue = makeQueue<Waiting<Request, Answer>>()
    let isScheduled = false

    const flush = () => {
      isScheduled = false
      for (let batch = queue.take(); batch.length > 0; batch = queue.take()) {
        const taken = batch
        const sorted = lockOf === undefined
          ? taken
          : Array.sortWith(taken, ({ request }) => lockOf(request), Order.String)
        fork(execute(options, sorted)).addObserver(() => {
          queue.release(taken)
          schedule()
        })
      }
    }

    const schedule = () => {
      if (isScheduled || !queue.isReady()) return
      isScheduled = true
      fork(Effect.andThen(gather, Effect.sync(flush)))
    }

    return (request: Request) =>
      Effect.withFiber((fiber) => {
        const length = lengthOf?.(request) ?? 0
        if (queue.isFull(length)) return tooManyWaiting
        return Effect.callback<Answer, StoreUnavailable>((answer) => {
          const item = {
            request,
            length,
            kind: kindOf?.(request) ?? "batch",
            key: keyOf?.(request),
            span: Tracing.currentSpan(fiber),
            answer
          }
          queue.add(item)
          schedule()
          return Effect.sync(() => {
            queue.remove(item)
            schedule()
          })
        })
      })
  })
