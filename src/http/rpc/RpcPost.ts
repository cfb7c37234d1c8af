/** Calls by `POST /rpc`: the request is a bounded body of lines, the response has a line for each result. */
import {
  ByteSize,
  type Cause,
  Deferred,
  Duration,
  Effect,
  Fiber,
  Pull,
  Queue,
  Result,
  Scope,
  Semaphore,
  Stream
} from "effect"
import { HttpIncomingMessage, type HttpServerError, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcSerialization } from "effect/rpc"
import { isLarge } from "../../domain/json/OpaqueJson.ts"
import * as Limits from "../../domain/Limits.ts"
import { Timeouts } from "../../services/timing/Intervals.ts"
import { codeOfStatus } from "../contract/ErrorCodes.ts"
import { requirePlain } from "../handlers/body/BodyReader.ts"
import * as SmallBodies from "../handlers/body/SmallBodies.ts"
import * as EventStream from "../handlers/EventStream.ts"
import type { Grants } from "../handlers/rpc/RpcAuthorization.ts"
import type * as RpcCodecs from "./RpcCodecs.ts"
import type { Connections } from "./RpcConnections.ts"
import { busy, type RpcMemory } from "./RpcMemory.ts"
import * as RpcMessages from "./RpcMessages.ts"

const refusal = (status: number, message: string, errors?: Readonly<Record<string, ReadonlyArray<string>>>) =>
  HttpServerResponse.jsonUnsafe({ message, code: codeOfStatus(status), errors }, { status })

const tooLarge = (limit: number) => refusal(413, `The request body is larger than ${limit} bytes.`)

const unreadable = refusal(422, SmallBodies.unreadable.message, SmallBodies.unreadable.errors)

const unreadableBody = (limit: number) => ({ reason }: HttpServerError.HttpServerError) =>
  reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge(limit) : unreadable

const tooSlow = refusal(408, SmallBodies.tooSlow.message)

const malformed = ({ isTooLong, message }: RpcMessages.Malformed) =>
  isTooLong ? refusal(413, message) : refusal(422, `body: ${message}`, { body: [message] })

const readStream = (request: HttpServerRequest.HttpServerRequest, limit: number, timeout: Duration.Duration) =>
  // In a fiber of its own, because interrupting the read closes the connection before the response is sent.
  request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.fromInputUnsafe(limit)),
    Effect.mapBoth({ onSuccess: (buffer) => new Uint8Array(buffer), onFailure: unreadableBody(limit) }),
    Effect.forkDetach({ startImmediately: true }),
    Effect.flatMap(Fiber.join),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(tooSlow) })
  )

const makeReadBody = Effect.fnUntraced(function*(memory: RpcMemory) {
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  const small = yield* SmallBodies.make
  const readSmall = (request: HttpServerRequest.HttpServerRequest, announced: number) =>
    Effect.mapError(small(request, announced), (error) => error === SmallBodies.tooSlow ? tooSlow : unreadable)

  return Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
    yield* Effect.mapError(requirePlain(request), ({ message }) => refusal(415, message))
    const announced = Number(request.headers["content-length"] ?? Limits.rpcCallBytes)
    if (announced > Limits.rpcMessageBytes) return yield* Effect.fail(tooLarge(Limits.rpcMessageBytes))
    let held = 0
    yield* Scope.addFinalizer(yield* Effect.scope, Effect.sync(() => memory.release(held)))
    if (!memory.reserve(announced)) return yield* Effect.fail(refusal(503, busy.message))
    held = announced
    const bytes = SmallBodies.isSmall(request, announced)
      ? yield* readSmall(request, announced)
      : yield* readStream(request, announced, Duration.sum(jsonBody, Duration.seconds(announced / jsonBytesPerSecond)))
    memory.release(announced - bytes.byteLength)
    held = bytes.byteLength
    return bytes
  })
})

/** All calls of a body, or none: one invalid message refuses the whole body. */
const callsOf = Effect.fnUntraced(function*(bytes: Uint8Array) {
  const received = yield* Effect.mapError(RpcMessages.parse(bytes), malformed)
  const calls = received.map(({ message }) => message).filter((message) => message._tag === "Request")
  if (new Set(calls.map(({ id }) => id)).size < calls.length) {
    const message = "Each call needs an id of its own"
    return yield* Effect.fail(refusal(422, `body: ${message}`, { body: [message] }))
  }
  return calls
})

/** Response lines that may wait for the client to read; calls block when the queue is full. */
const maxQueuedLines = 16

const { contentType } = RpcSerialization.ndjson

/** The response to a single call is one line, or empty when the connection ends without it. */
const respondOnce = Effect.fnUntraced(function*(connections: Connections, call: RpcCodecs.DecodedCall) {
  const response = Deferred.makeUnsafe<string>()
  const connection = yield* connections.open({
    write: (line) => Effect.asVoid(Deferred.succeed(response, line)),
    end: Effect.asVoid(Deferred.succeed(response, ""))
  })
  yield* connection.begin(call, Effect.void)
  return HttpServerResponse.text(yield* Deferred.await(response), { contentType })
})

/** An empty line, which readers of NDJSON skip. */
const keepAlive = EventStream.keepAlive("\n")

const respond = Effect.fnUntraced(function*(
  connections: Connections,
  calls: ReadonlyArray<RpcMessages.Call>,
  grants: Grants
) {
  // Writes of results cannot be interrupted, so the queue is shut down when the client has disconnected.
  const queue = yield* Effect.acquireRelease(Queue.bounded<string, Cause.Done>(maxQueuedLines), Queue.shutdown)
  const connection = yield* connections.open({
    write: (line) => Queue.offer(queue, line),
    end: Queue.end(queue)
  })
  const permits = yield* Semaphore.make(Limits.rpcConcurrency)
  const begin = Effect.fnUntraced(function*(call: RpcMessages.Call) {
    const decoded = yield* Effect.result(connections.decode(call, grants))
    if (Result.isFailure(decoded)) return yield* connection.fail(call.id, decoded.failure)
    if (decoded.success.codec.isStream) return yield* connection.begin(decoded.success, Effect.void)
    yield* permits.take(1)
    yield* connection.begin(decoded.success, permits.release(1))
  })
  yield* Effect.forEach(calls, begin, { discard: true }).pipe(
    Effect.andThen(connection.finish),
    Effect.forkScoped({ startImmediately: true })
  )
  const first = yield* Pull.catchDone(Queue.takeAll(queue), () => Effect.succeed([])).pipe(
    Effect.timeoutOrElse({ duration: Limits.keepAliveInterval, orElse: () => Effect.succeed([]) })
  )
  // A complete response is sent with its length.
  if (queue.state._tag === "Done") return HttpServerResponse.text(first.join(""), { contentType })
  const lines = Stream.concat(Stream.fromArray(first), Stream.fromQueue(queue)).pipe(
    Stream.merge(keepAlive, { haltStrategy: "left" })
  )
  return HttpServerResponse.stream(Stream.encodeText(lines), { contentType })
})

const respondTo = Effect.fnUntraced(function*(
  connections: Connections,
  calls: ReadonlyArray<RpcMessages.Call>,
  grants: Grants
) {
  const [call, ...others] = calls
  const decoded = call === undefined || others.length > 0
    ? undefined
    : yield* Effect.result(connections.decode(call, grants))
  return decoded !== undefined && Result.isSuccess(decoded) && !decoded.success.codec.isStream
    ? yield* respondOnce(connections, decoded.success)
    : yield* respond(connections, calls, grants)
})

/** Returns the handler of a request. */
export const make = (connections: Connections, memory: RpcMemory) =>
  Effect.map(
    Effect.all([makeReadBody(memory), Semaphore.make(1)]),
    ([readBody, parsing]) => (request: HttpServerRequest.HttpServerRequest, grants: Grants) =>
      readBody(request).pipe(
        // One large body at a time, because the pauses of several would be in the same turn of the event loop.
        Effect.flatMap((bytes) => isLarge(bytes) ? parsing.withPermit(callsOf(bytes)) : callsOf(bytes)),
        Effect.flatMap((calls) => respondTo(connections, calls, grants)),
        Effect.catch(Effect.succeed)
      )
  )
