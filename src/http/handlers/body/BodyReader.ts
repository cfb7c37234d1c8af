/**
 * Reads the JSON bodies of requests within bounds of size, time, memory and work. The first `smallBytes` of a body are read
 * immediately, and the rest of a larger body when memory permits. It is validated as it arrives. A body that announces that
 * it is small takes a shorter way: `SmallBodies`.
 */
import { Channel, Context, Duration, Effect, Layer, Pull, type Result, type Scope, Stream } from "effect"
import { Digest } from "effect/crypto"
import type { HttpServerRequest } from "effect/http"
import { advanceWithPauses, Scanner, scanWithPauses } from "../../../domain/json/Scanner.ts"
import type { Found } from "../../../domain/json/Shape.ts"
import * as Limits from "../../../domain/Limits.ts"
import type { FairPermits } from "../../../services/limits/FairPermits.ts"
import { Memory } from "../../../services/limits/Memory.ts"
import { PassedBytes } from "../../../services/limits/PassedBytes.ts"
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
import { fingerprintOf } from "../Fingerprint.ts"
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
const permitTimeout = Duration.seconds(60)

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

/** A longer body is not scanned further. That of an event says in front of this whose event it is. */
const scannedBytes = ({ maxBytes }: BodyKind<unknown>) => maxBytes > Limits.jsonBodyBytes ? 2 * maxBytes : maxBytes

/** A body that arrives, as far as it is scanned. Keeps nothing of one that is longer. */
class BodyBuffer {
  received = 0
  #bytes = none
  readonly #maxBytes: number

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get isTooLong(): boolean {
    return this.received > this.#maxBytes
  }

  /** The body from its beginning, with room behind what has arrived. */
  get bytes(): Uint8Array {
    return this.#bytes
  }

  /** Resizes once, for a body of an announced size. */
  allocate(size: number): void {
    if (size <= this.#bytes.length || this.isTooLong) return
    const larger = new Uint8Array(Math.min(size, this.#maxBytes))
    larger.set(this.#bytes.subarray(0, this.received))
    this.#bytes = larger
  }

  add(chunk: Uint8Array): void {
    const before = this.received
    this.received += chunk.length
    if (this.isTooLong) this.#bytes = none
    else {
      if (this.received > this.#bytes.length) this.allocate(Math.max(this.received, 2 * this.#bytes.length))
      this.#bytes.set(chunk, before)
    }
  }
}

const open = Effect.fnUntraced(function*(
  request: HttpServerRequest.HttpServerRequest,
  kind: BodyKind<unknown>,
  passed: (count: number) => void
) {
  const pull = yield* Channel.toPullScoped(Stream.toChannel(contentOf(request)), yield* Effect.scope)
  const scanner = new Scanner(kind.shape, Limits.scannedDepth)
  const buffer = new BodyBuffer(scannedBytes(kind))
  let hasEnded = false
  let nextYield = bytesPerTurn
  /** True if the rest of the body does not matter. */
  const isWhole = () => hasEnded || buffer.isTooLong || scanner.problem !== undefined

  const take = (chunk: Uint8Array): Effect.Effect<unknown> => {
    if (isWhole()) return Effect.void
    buffer.add(chunk)
    passed(chunk.length)
    if (buffer.isTooLong) return Effect.void
    const scan = advanceWithPauses(scanner, buffer.bytes, buffer.received)
    if (buffer.received < nextYield) return scan
    nextYield = buffer.received + bytesPerTurn
    return Effect.andThen(scan, Effect.yieldNow)
  }

  const advance: Effect.Effect<void, ValidationFailed> = Pull.matchEffect(pull, {
    onSuccess: (chunks) => Effect.forEach(chunks, take, { discard: true }),
    onFailure: () => Effect.fail(SmallBodies.unreadable),
    onDone: () => Effect.sync(() => void (hasEnded = true))
  })

  /** Reads until the body has ended or is refused, or more than `bytes` bytes have arrived. */
  const readBeyond = (bytes: number): Effect.Effect<void, ValidationFailed> =>
    Effect.suspend(() =>
      isWhole() || buffer.received > bytes ? Effect.void : Effect.flatMap(advance, () => readBeyond(bytes))
    )

  return {
    readBeyond,
    buffer,
    isWhole,
    received: Effect.sync((): Received => {
      scanner.end()
      return { bytes: buffer.bytes.subarray(0, buffer.received), size: buffer.received, scanner }
    })
  }
})

type Incoming = Effect.Success<ReturnType<typeof open>>

/** A body, or why it is none. `found` has the fields, also of a body that is refused. */
interface Attempt<A> {
  readonly outcome: Result.Result<A, BodyError>
  readonly found: Found | undefined
}

export class BodyReader extends Context.Service<BodyReader, {
  /**
   * The body of a request, and its key if it has an `Idempotency-Key`. The token is checked again after the body has
   * arrived. Permits of a large body are released when the request's scope closes.
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

const take = (permits: FairPermits, holder: string, count: number) =>
  Effect.timeoutOrElse(permits.take(holder, count), {
    duration: permitTimeout,
    orElse: () => Effect.fail(tooBusy)
  })

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
  const yieldToOthers = ({ buffer }: Incoming, memory: FairPermits) =>
    Effect.forever(Effect.gen(function*() {
      const before = buffer.received
      yield* Effect.sleep(contendedInterval)
      if (memory.isContended() && buffer.received - before < contendedBytes) return yield* tooBusy
    }))

  const receiveAny = Effect.fnUntraced(function*(
    kind: BodyKind<unknown>,
    request: HttpServerRequest.HttpServerRequest,
    announced: number,
    holder: string
  ) {
    const { maxBytes } = kind
    const memory = maxBytes > Limits.jsonBodyBytes ? events : bodies
    const most = scannedBytes(kind)
    if (announced > maxBytes && most === maxBytes) return yield* tooLargeOf(maxBytes)
    const incoming = yield* open(request, kind, passed)
    yield* inTime(incoming.readBeyond(SmallBodies.smallBytes), Math.min(announced, SmallBodies.smallBytes))
    if (incoming.isWhole()) return yield* incoming.received
    yield* take(memory, holder, Math.min(announced, maxBytes))
    incoming.buffer.allocate(announced)
    yield* whileValid(Effect.raceFirst(
      inTime(incoming.readBeyond(most), Math.min(announced, most)),
      yieldToOthers(incoming, memory)
    ))
    // The database's driver copies an accepted body. The finalizer keeps none of its bytes.
    const { received } = incoming.buffer
    yield* Effect.addFinalizer(() => Effect.sync(() => passed(copies * received)))
    // Other fibers run before the fields are copied, which takes about ten milliseconds.
    yield* Effect.yieldNow
    return yield* incoming.received
  })

  return (kind: BodyKind<unknown>, request: HttpServerRequest.HttpServerRequest, holder: string) =>
    Effect.flatMap(requirePlain(request), () => {
      const announced = Number(request.headers["content-length"] ?? kind.maxBytes)
      return SmallBodies.isSmall(request, announced)
        ? receiveSmall(kind, request, announced)
        : receiveAny(kind, request, announced, holder)
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
  const digest = yield* Digest.Digest

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
    const fingerprint = IdempotencyKey.isGiven(request)
      ? yield* fingerprintOf(digest, IdempotencyKey.operationOf(request.method, pathOf(request)), bytes)
      : undefined
    return { body, key: yield* IdempotencyKey.keyOfRequest(request, fingerprint) }
  })

  return BodyReader.of({ read, attempt })
})
