/**
 * Reads the JSON bodies of requests, each as a whole, within bounds of size, time, memory and work. A body is scanned while it arrives. One
 * that announces that it is small is read by `SmallBodies`; another one is a stream that fills a buffer: its first `Limits.smallText`
 * bytes at once, and the rest within a share of `Memory`.
 */
import { Channel, Context, Duration, Effect, Layer, Pull, type Result, type Scope, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import { advanceWithPauses, Scanner, scanWithPauses } from "../../../domain/json/Scanner.ts"
import type { Found } from "../../../domain/json/Shape.ts"
import * as Limits from "../../../domain/Limits.ts"
import type { FairPermits } from "../../../services/limits/FairPermits.ts"
import { Memory, PassedBytes } from "../../../services/limits/Memory.ts"
import type { RequestKey } from "../../../services/store/tasks/TaskStore.ts"
import { Timeouts } from "../../../services/timing/Intervals.ts"
import {
  invalid,
  PayloadTooLarge,
  type RequestTimeout,
  ServiceUnavailable,
  type Unauthorized,
  UnsupportedMediaType,
  type ValidationFailed
} from "../../contract/Errors.ts"
import { pathOf } from "../../Routes.ts"
import { CurrentToken, whileValid } from "../CurrentToken.ts"
import * as IdempotencyKey from "../IdempotencyKey.ts"
import { type BodyKind, decodeScanned } from "./JsonBody.ts"
import * as SmallBodies from "./SmallBodies.ts"

/** Why a body was not read. */
export type BodyError =
  | PayloadTooLarge
  | RequestTimeout
  | ServiceUnavailable
  | Unauthorized
  | UnsupportedMediaType
  | ValidationFailed

/** Copies that the database's driver makes of an accepted body. */
const copies = 2

/** Maximum wait for memory. */
const memoryTimeout = Duration.seconds(60)

/** A body that holds memory while others wait for it must receive this many bytes in each interval. */
const contendedBytes = 2 * 1024 * 1024
const contendedInterval = Duration.seconds(2)

/** Bytes that are scanned in one turn of the event loop: Node reads 2 MiB of a connection in a turn unless the reader pauses. */
const bytesPerTurn = 128 * 1024

const tooLargeOf = (maxBytes: number) =>
  new PayloadTooLarge({ message: `The request body is larger than ${maxBytes} bytes.` })
const none = new Uint8Array(0)
export const noBody = invalid("body", "The body is not valid JSON: it is empty")
const tooBusy = new ServiceUnavailable({
  message: "Too many large requests are under way. Try again soon.",
  code: "too_busy"
})
const notPlain = new UnsupportedMediaType({ message: "The request body must come without a Content-Encoding." })

/** Refuses compressed bodies: a small one could become a huge one. */
export const requirePlain = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  const encoding = headers["content-encoding"]?.toLowerCase()
  return encoding === undefined || encoding === "" || encoding === "identity" ? Effect.void : Effect.fail(notPlain)
}

/** The stream of a web `Request` without a body would fail. */
const contentOf = ({ source, stream }: HttpServerRequest.HttpServerRequest) =>
  "body" in source && source.body === null ? Stream.empty : stream

/** A body that has arrived and was scanned, or as much of it as was needed to refuse it. */
interface Received {
  readonly bytes: Uint8Array
  /** Bytes that have arrived. */
  readonly size: number
  readonly scanner: Scanner
}

/** A longer body is neither kept nor scanned further. That of an event says in front of this whose event it is. */
const keptBytes = ({ maxBytes }: BodyKind<unknown>) => maxBytes > Limits.jsonBodyBytes ? 2 * maxBytes : maxBytes

/** The bytes of a body that arrives; none of one that is longer than `maxBytes`. */
class BodyBuffer {
  /** Bytes that have arrived. */
  size = 0
  #bytes = none
  readonly #maxBytes: number

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get isTooLong(): boolean {
    return this.size > this.#maxBytes
  }

  /** The body from its beginning, with room behind what has arrived. */
  get bytes(): Uint8Array {
    return this.#bytes
  }

  /** Resizes once, for a body of an announced size. */
  allocate(size: number): void {
    if (size <= this.#bytes.length || this.isTooLong) return
    const larger = new Uint8Array(Math.min(size, this.#maxBytes))
    larger.set(this.#bytes.subarray(0, this.size))
    this.#bytes = larger
  }

  add(chunk: Uint8Array): void {
    const before = this.size
    this.size += chunk.length
    if (this.isTooLong) this.#bytes = none
    else {
      if (this.size > this.#bytes.length) this.allocate(Math.max(this.size, 2 * this.#bytes.length))
      this.#bytes.set(chunk, before)
    }
  }
}

/** Opens the stream of a body, which is read as far as the caller says. */
const openStream = Effect.fnUntraced(function*(
  request: HttpServerRequest.HttpServerRequest,
  kind: BodyKind<unknown>,
  passed: (count: number) => void
) {
  const pull = yield* Channel.toPullScoped(Stream.toChannel(contentOf(request)), yield* Effect.scope)
  const scanner = new Scanner(kind.shape, Limits.scannedDepth)
  const buffer = new BodyBuffer(keptBytes(kind))
  let hasEnded = false
  let nextYield = bytesPerTurn
  /** True if the rest of the body does not matter. */
  const isDone = () => hasEnded || buffer.isTooLong || scanner.problem !== undefined

  const add = (chunk: Uint8Array): Effect.Effect<unknown> => {
    if (isDone()) return Effect.void
    buffer.add(chunk)
    passed(chunk.length)
    if (buffer.isTooLong) return Effect.void
    const scan = advanceWithPauses(scanner, buffer.bytes, buffer.size)
    if (buffer.size < nextYield) return scan
    nextYield = buffer.size + bytesPerTurn
    return Effect.andThen(scan, Effect.yieldNow)
  }

  const readSome: Effect.Effect<void, ValidationFailed> = Pull.matchEffect(pull, {
    onSuccess: (chunks) => Effect.forEach(chunks, add, { discard: true }),
    onFailure: () => Effect.fail(SmallBodies.unreadable),
    onDone: () => Effect.sync(() => void (hasEnded = true))
  })

  /** Reads until the body has ended or is refused, or more than `bytes` bytes have arrived. */
  const readBeyond = (bytes: number): Effect.Effect<void, ValidationFailed> =>
    Effect.suspend(() =>
      isDone() || buffer.size > bytes ? Effect.void : Effect.flatMap(readSome, () => readBeyond(bytes))
    )

  return {
    readBeyond,
    buffer,
    isDone,
    end: Effect.sync((): Received => {
      scanner.end()
      return { bytes: buffer.bytes.subarray(0, buffer.size), size: buffer.size, scanner }
    })
  }
})

/** The value of a body, or why it is refused. `found` has its fields in both cases. */
interface Attempt<A> {
  readonly outcome: Result.Result<A, BodyError>
  readonly found: Found | undefined
}

export class BodyReader extends Context.Service<BodyReader, {
  /**
   * The body of a request, and its key if it has an `Idempotency-Key`. The token is checked again after the body has
   * arrived. The memory of a large body is released when the request's scope closes.
   */
  readonly read: <A>(
    kind: BodyKind<A>,
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<
    { readonly body: A; readonly key: RequestKey | undefined },
    BodyError,
    Scope.Scope
  >
  /** The same of a body without a key, with what was found in one that is refused. */
  readonly attempt: <A>(
    kind: BodyKind<A>,
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<Attempt<A>, BodyError, Scope.Scope>
}>()("async-task-service/http/handlers/body/BodyReader") {
  static readonly layer = Layer.effect(BodyReader, Effect.suspend(() => make))
}

const makeReceive = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const passed = yield* PassedBytes
  const { bodies, events } = yield* Memory
  const readSmall = yield* SmallBodies.make

  const receiveSmall = Effect.fnUntraced(function*(
    { shape }: BodyKind<unknown>,
    request: HttpServerRequest.HttpServerRequest,
    announced: number
  ) {
    const bytes = yield* readSmall(request, announced)
    passed(bytes.length)
    return { bytes, size: bytes.length, scanner: yield* scanWithPauses(bytes, shape, Limits.scannedDepth) }
  })

  const inTime = <A, E, R>(reading: Effect.Effect<A, E, R>, bytes: number) =>
    Effect.timeoutOrElse(reading, {
      duration: Duration.sum(jsonBody, Duration.seconds(bytes / jsonBytesPerSecond)),
      orElse: () => Effect.fail(SmallBodies.tooSlow)
    })

  /** Fails when a body arrives slowly while others wait for memory, so that slow senders cannot keep others out. */
  const yieldToOthers = (buffer: BodyBuffer, memory: FairPermits) =>
    Effect.forever(Effect.gen(function*() {
      const before = buffer.size
      yield* Effect.sleep(contendedInterval)
      if (memory.isContended() && buffer.size - before < contendedBytes) return yield* tooBusy
    }))

  const receiveStream = Effect.fnUntraced(function*(
    kind: BodyKind<unknown>,
    request: HttpServerRequest.HttpServerRequest,
    announced: number,
    holder: string
  ) {
    const { maxBytes } = kind
    const memory = maxBytes > Limits.jsonBodyBytes ? events : bodies
    const most = keptBytes(kind)
    if (announced > maxBytes && most === maxBytes) return yield* tooLargeOf(maxBytes)
    const { buffer, end, isDone, readBeyond } = yield* openStream(request, kind, passed)
    yield* inTime(readBeyond(Limits.smallText), Math.min(announced, Limits.smallText))
    if (isDone()) return yield* end
    yield* Effect.timeoutOrElse(memory.take(holder, Math.min(announced, maxBytes)), {
      duration: memoryTimeout,
      orElse: () => Effect.fail(tooBusy)
    })
    buffer.allocate(announced)
    yield* whileValid(
      Effect.raceFirst(inTime(readBeyond(most), Math.min(announced, most)), yieldToOthers(buffer, memory))
    )
    // The database's driver copies an accepted body. The finalizer keeps none of its bytes.
    const { size } = buffer
    yield* Effect.addFinalizer(() => Effect.sync(() => passed(copies * size)))
    // Other fibers run before the fields are copied, which takes about ten milliseconds.
    yield* Effect.yieldNow
    return yield* end
  })

  return (kind: BodyKind<unknown>, request: HttpServerRequest.HttpServerRequest, holder: string) =>
    Effect.flatMap(requirePlain(request), () => {
      const announced = Number(request.headers["content-length"] ?? kind.maxBytes)
      return SmallBodies.isSmall(request, announced)
        ? receiveSmall(kind, request, announced)
        : receiveStream(kind, request, announced, holder)
    })
})

const decode = <A>(
  kind: BodyKind<A>,
  { bytes, scanner, size }: Received
): Effect.Effect<A, PayloadTooLarge | ValidationFailed> => {
  if (size === 0) return kind.whenEmpty ?? Effect.fail(noBody)
  return size > kind.maxBytes ? Effect.fail(tooLargeOf(kind.maxBytes)) : decodeScanned(kind, scanner, bytes)
}

const make = Effect.gen(function*() {
  const receive = yield* makeReceive
  const keyOf = yield* IdempotencyKey.makeKeyOf

  const attemptUnchecked = Effect.fnUntraced(function*<A>(
    kind: BodyKind<A>,
    request: HttpServerRequest.HttpServerRequest,
    holder: string
  ) {
    const received = yield* receive(kind, request, holder)
    const outcome = yield* Effect.result(decode(kind, received))
    return { outcome, found: received.scanner.found, bytes: received.bytes }
  })

  const attempt = Effect.fnUntraced(function*<A>(kind: BodyKind<A>, request: HttpServerRequest.HttpServerRequest) {
    const { check, holder } = yield* CurrentToken
    // A generator function made for each request would keep the request until the old generation is collected.
    const attempted = yield* Effect.result(attemptUnchecked(kind, request, holder))
    yield* check
    return yield* Effect.fromResult(attempted)
  })

  const read = Effect.fnUntraced(function*<A>(kind: BodyKind<A>, request: HttpServerRequest.HttpServerRequest) {
    const { bytes, outcome } = yield* attempt(kind, request)
    const body = yield* Effect.fromResult(outcome)
    const key = yield* keyOf(request.headers["idempotency-key"], request.method, pathOf(request), bytes)
    return { body, key }
  })

  return BodyReader.of({ read, attempt })
})
