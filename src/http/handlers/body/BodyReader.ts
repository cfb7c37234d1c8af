/**
 * Reads the JSON bodies of requests within bounds of size, time, memory and work. The first `smallBytes` of a body are read
 * immediately. The rest of a larger body is read when memory permits, and decoded on another thread. A body that announces
 * that it is small takes a shorter way: `SmallBodies`.
 */
import { Channel, Context, Duration, Effect, Layer, Pull, type Scope, Stream } from "effect"
import { Digest } from "effect/crypto"
import type { HttpServerRequest } from "effect/http"
import * as Limits from "../../../domain/Limits.ts"
import { PassedBytes } from "../../../services/files/PassedBytes.ts"
import * as FairPermits from "../../../services/limits/FairPermits.ts"
import type { IdempotencyClaim } from "../../../services/store/TaskWrites.ts"
import { Timeouts } from "../../../services/timing/Timeouts.ts"
import {
  PayloadTooLarge,
  type RequestTimeout,
  ServiceUnavailable,
  type Unauthorized,
  UnsupportedMediaType,
  type ValidationFailed
} from "../../contract/Errors.ts"
import { CurrentToken } from "../CurrentToken.ts"
import * as IdempotencyKey from "../IdempotencyKey.ts"
import { bodies, type BodyName, type BodyOf } from "./Bodies.ts"
import { decodeBytes, type Decoded, tooManyValues } from "./JsonBody.ts"
import * as SmallBodies from "./SmallBodies.ts"
import { ValueCounter } from "./ValueCounter.ts"

/** Why a body was not read. */
export type BodyError =
  | PayloadTooLarge
  | RequestTimeout
  | ServiceUnavailable
  | Unauthorized
  | UnsupportedMediaType
  | ValidationFailed

/** Decoding more values than this takes several milliseconds. */
const smallValues = 2_000

/** Memory for large bodies in bytes; one user may use it for one body of the maximum size. */
const memoryPermits = { total: 2 * Limits.jsonBodyBytes, perHolder: Limits.jsonBodyBytes }
/** From decoding to the response a large body takes several times its size, so the node handles one at a time. */
const decodePermits = { total: 1, perHolder: 1 }

/** Copies that the database's driver makes of an accepted body. */
const copies = 2

/** Maximum wait for memory, and again for decoding. */
const permitTimeout = Duration.seconds(60)

/** A body that holds memory while others wait for it must receive this many bytes in each interval. */
const contendedBytes = 2 * 1024 * 1024
const contendedInterval = Duration.seconds(2)

/** Maximum overcount of `ValueCounter`: open arrays and objects that may turn out empty. */
const maxOvercount = Limits.jsonDepth

const tooLarge = new PayloadTooLarge({ message: `The request body is larger than ${Limits.jsonBodyBytes} bytes.` })
const tooBusy = new ServiceUnavailable({ message: "Too many large requests are under way. Try again soon." })
const notPlain = new UnsupportedMediaType({ message: "The request body must come without a Content-Encoding." })

/** Refuses compressed bodies: a small one could become a huge one. */
export const requirePlain = ({ headers }: HttpServerRequest.HttpServerRequest) => {
  const encoding = headers["content-encoding"]?.toLowerCase()
  return encoding === undefined || encoding === "" || encoding === "identity" ? Effect.void : Effect.fail(notPlain)
}

/** Decodes a body on another thread, to which the buffer of the bytes is transferred. Without it bodies are decoded here. */
export const LargeBodies = Context.Reference<
  {
    readonly decode: <Name extends BodyName>(
      name: Name,
      bytes: Uint8Array<ArrayBuffer>,
      operation: string | undefined
    ) => Effect.Effect<Decoded<BodyOf<Name>>, ValidationFailed>
  } | undefined
>("async-task-service/http/handlers/LargeBodies", { defaultValue: () => undefined })

/** The stream of a web `Request` without a body would fail. */
const contentOf = ({ source, stream }: HttpServerRequest.HttpServerRequest) =>
  "body" in source && source.body === null ? Stream.empty : stream

/** A body that has arrived. */
interface Received {
  readonly bytes: Uint8Array
  /** The bytes with a buffer that no one else uses. */
  readonly owned: () => Uint8Array<ArrayBuffer>
  /** See `ValueCounter`. */
  readonly values: number
}

type Incoming = Effect.Success<ReturnType<typeof open>>

const open = Effect.fnUntraced(function*(
  request: HttpServerRequest.HttpServerRequest,
  passed: (count: number) => void
) {
  const pull = yield* Channel.toPullScoped(Stream.toChannel(contentOf(request)), yield* Effect.scope)
  const values = new ValueCounter()
  let buffer = new Uint8Array(0)
  let received = 0
  let isWhole = false

  const resize = (size: number) => {
    const larger = new Uint8Array(size)
    larger.set(buffer.subarray(0, received))
    buffer = larger
  }

  const take = (chunk: Uint8Array): PayloadTooLarge | ValidationFailed | undefined => {
    const end = received + chunk.length
    if (end > Limits.jsonBodyBytes) return tooLarge
    if (end > buffer.length) resize(Math.max(end, 2 * buffer.length))
    buffer.set(chunk, received)
    received = end
    passed(chunk.length)
    values.add(chunk)
    return values.count > Limits.jsonValues + maxOvercount ? tooManyValues : undefined
  }

  const advance: Effect.Effect<void, PayloadTooLarge | ValidationFailed> = Pull.matchEffect(pull, {
    onSuccess: (chunks) => {
      for (const chunk of chunks) {
        const problem = take(chunk)
        if (problem !== undefined) return Effect.fail(problem)
      }
      return Effect.void
    },
    onFailure: () => Effect.fail(SmallBodies.unreadable),
    onDone: () => {
      isWhole = true
      return Effect.void
    }
  })

  /** Reads until the body has ended or more than `bytes` bytes have arrived. */
  const readBeyond = (bytes: number): Effect.Effect<void, PayloadTooLarge | ValidationFailed> =>
    Effect.suspend(() => isWhole || received > bytes ? Effect.void : Effect.flatMap(advance, () => readBeyond(bytes)))

  return {
    readBeyond,
    /** Resizes the buffer once, for a body of an announced size. */
    allocate: resize,
    isWhole: () => isWhole,
    size: () => received,
    received: (): Received => {
      const bytes = buffer.subarray(0, received)
      return { bytes, owned: () => bytes, values: values.count }
    }
  }
})

export class BodyReader extends Context.Service<BodyReader, {
  /**
   * The body of a request, and its claim if it has an `Idempotency-Key`. The token is checked again after the body has
   * arrived. Permits of a large body are released when the request's scope closes.
   */
  readonly read: <Name extends BodyName>(
    name: Name,
    request: HttpServerRequest.HttpServerRequest
  ) => Effect.Effect<
    { readonly body: BodyOf<Name>; readonly claim: IdempotencyClaim | undefined },
    BodyError,
    Scope.Scope
  >
}>()("async-task-service/http/handlers/body/BodyReader") {
  static readonly layer = Layer.effect(BodyReader, Effect.suspend(() => make))
}

const take = (permits: FairPermits.FairPermits, holder: string, count: number) =>
  Effect.timeoutOrElse(permits.take(holder, count), {
    duration: permitTimeout,
    orElse: () => Effect.fail(tooBusy)
  })

const makeReceive = Effect.gen(function*() {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const passed = yield* PassedBytes
  const memory = FairPermits.make(memoryPermits)
  const readSmall = yield* SmallBodies.make

  const receiveSmall = (request: HttpServerRequest.HttpServerRequest, announced: number) =>
    Effect.map(readSmall(request, announced), (bytes): Received => {
      const values = new ValueCounter()
      values.add(bytes)
      passed(bytes.length)
      return { bytes, owned: () => new Uint8Array(bytes), values: values.count }
    })

  const inTime = <A, E, R>(reading: Effect.Effect<A, E, R>, bytes: number) =>
    Effect.timeoutOrElse(reading, {
      duration: Duration.sum(jsonBody, Duration.seconds(bytes / jsonBytesPerSecond)),
      orElse: () => Effect.fail(SmallBodies.tooSlow)
    })

  /** Fails when a body arrives slowly while others wait for memory, so that slow senders cannot keep others out. */
  const yieldToOthers = ({ size }: Incoming) =>
    Effect.forever(Effect.gen(function*() {
      const before = size()
      yield* Effect.sleep(contendedInterval)
      if (memory.isContended() && size() - before < contendedBytes) return yield* tooBusy
    }))

  const receiveAny = Effect.fnUntraced(function*(
    request: HttpServerRequest.HttpServerRequest,
    announced: number,
    holder: string
  ) {
    if (announced > Limits.jsonBodyBytes) return yield* tooLarge
    const incoming = yield* open(request, passed)
    yield* inTime(incoming.readBeyond(SmallBodies.smallBytes), Math.min(announced, SmallBodies.smallBytes))
    if (incoming.isWhole()) return incoming.received()
    yield* take(memory, holder, announced)
    incoming.allocate(announced)
    yield* Effect.raceFirst(
      inTime(incoming.readBeyond(Limits.jsonBodyBytes), announced),
      yieldToOthers(incoming)
    )
    return incoming.received()
  })

  return (request: HttpServerRequest.HttpServerRequest, holder: string) =>
    Effect.flatMap(requirePlain(request), () => {
      const announced = Number(request.headers["content-length"] ?? Limits.jsonBodyBytes)
      return SmallBodies.isSmall(request, announced)
        ? receiveSmall(request, announced)
        : receiveAny(request, announced, holder)
    })
})

const makeDecode = Effect.gen(function*() {
  const digest = yield* Digest.Digest
  const largeBodies = yield* LargeBodies
  const passed = yield* PassedBytes
  const decoding = FairPermits.make(decodePermits)

  /** Decodes a body on the other thread. */
  const decodeThere = Effect.fnUntraced(function*<A, E, R>(
    decoded: Effect.Effect<A, E, R>,
    size: number,
    holder: string
  ) {
    yield* take(decoding, holder, 1)
    yield* Effect.addFinalizer(() => Effect.sync(() => passed(copies * size)))
    return yield* decoded
  })

  return <Name extends BodyName>(
    name: Name,
    { bytes, owned, values }: Received,
    operation: string | undefined,
    holder: string
  ) => {
    const size = bytes.length
    const isSmall = size <= SmallBodies.smallBytes && values <= smallValues
    return isSmall || largeBodies === undefined
      ? decodeBytes(digest, bodies[name], bytes, operation)
      : decodeThere(Effect.suspend(() => largeBodies.decode(name, owned(), operation)), size, holder)
  }
})

const make = Effect.gen(function*() {
  const receive = yield* makeReceive
  const decode = yield* makeDecode

  const read = Effect.fnUntraced(function*<Name extends BodyName>(
    name: Name,
    request: HttpServerRequest.HttpServerRequest
  ) {
    const { check, holder } = yield* CurrentToken
    const operation = IdempotencyKey.isGiven(request) ? IdempotencyKey.operationOf(request) : undefined
    const outcome = yield* Effect.result(
      Effect.flatMap(receive(request, holder), (received) => decode(name, received, operation, holder))
    )
    yield* check
    const { fingerprint, value } = yield* Effect.fromResult(outcome)
    return { body: value, claim: yield* IdempotencyKey.claimOfRequest(request, fingerprint) }
  })

  return BodyReader.of({ read })
})
