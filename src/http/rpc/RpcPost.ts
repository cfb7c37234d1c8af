/** Calls by `POST /rpc`: the request is a bounded body of lines, the response has a line for each result. */
import { ByteSize, type Cause, Duration, Effect, Fiber, Pull, Queue, Result, Semaphore, Stream } from "effect"
import { HttpIncomingMessage, type HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { RpcSchema, RpcSerialization } from "effect/rpc"
import * as Limits from "../../domain/Limits.ts"
import { Timeouts } from "../../services/timing/Timeouts.ts"
import { InternalRpc } from "../contract/rpc/Rpc.ts"
import { requirePlain } from "../handlers/body/BodyReader.ts"
import type { Connections } from "./RpcConnections.ts"
import { busy, RpcMemory } from "./RpcMemory.ts"
import * as RpcMessages from "./RpcMessages.ts"

const refusal = (status: number, message: string, errors?: Readonly<Record<string, ReadonlyArray<string>>>) =>
  HttpServerResponse.jsonUnsafe({ message, errors }, { status })

const tooLarge = refusal(413, `The request body is larger than ${Limits.rpcMessageBytes} bytes.`)

const unreadable = refusal(422, "body: The body could not be read", { body: ["The body could not be read"] })

const unreadableBody = ({ reason }: HttpServerError.HttpServerError) =>
  reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge : unreadable

const tooSlow = refusal(408, "The request body did not arrive in time.")

const malformed = ({ isTooLong, message }: RpcMessages.Malformed) =>
  isTooLong ? refusal(413, message) : refusal(422, `body: ${message}`, { body: [message] })

const readBody = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
  yield* Effect.mapError(requirePlain(request), ({ message }) => refusal(415, message))
  const announced = Number(request.headers["content-length"] ?? Limits.rpcMessageBytes)
  if (announced > Limits.rpcMessageBytes) return yield* Effect.fail(tooLarge)
  const memory = yield* RpcMemory
  let held = 0
  yield* Effect.acquireRelease(
    Effect.suspend(() => {
      if (!memory.reserve(announced)) return Effect.fail(refusal(503, busy.message))
      held = announced
      return Effect.void
    }),
    () => Effect.sync(() => memory.release(held))
  )
  const { jsonBody, jsonBytesPerSecond } = yield* Timeouts
  // In a fiber of its own, because interrupting the read closes the connection before the response is sent.
  const reading = yield* request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.fromInputUnsafe(Limits.rpcMessageBytes)),
    Effect.mapError(unreadableBody),
    Effect.forkDetach({ startImmediately: true })
  )
  const bytes = yield* Fiber.join(reading).pipe(
    Effect.timeoutOrElse({
      duration: Duration.sum(jsonBody, Duration.seconds(announced / jsonBytesPerSecond)),
      orElse: () => Effect.fail(tooSlow)
    })
  )
  memory.release(announced - bytes.byteLength)
  held = bytes.byteLength
  return bytes
})

/** All calls of a body, or none: one invalid message refuses the whole body. */
const readCalls = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
  const bytes = yield* readBody(request)
  const received = yield* Effect.fromResult(Result.mapError(RpcMessages.parse(new Uint8Array(bytes)), malformed))
  const calls = received.map(({ message }) => message).filter((message) => message._tag === "Request")
  if (new Set(calls.map(({ id }) => id)).size < calls.length) {
    const message = "Each call needs an id of its own"
    return yield* Effect.fail(refusal(422, `body: ${message}`, { body: [message] }))
  }
  return calls
})

const isStream = (tag: string) => {
  const rpc = InternalRpc.requests.get(tag)
  return rpc !== undefined && RpcSchema.isStreamSchema(rpc.successSchema)
}

/** Response lines that may wait for the client to read; calls block when the queue is full. */
const maxQueuedLines = 16

const { contentType } = RpcSerialization.ndjson

const respond = Effect.fnUntraced(function*(connections: Connections, calls: ReadonlyArray<RpcMessages.Call>) {
  const queue = yield* Queue.bounded<string, Cause.Done>(maxQueuedLines)
  const connection = yield* connections.open({
    write: (line) => Queue.offer(queue, line),
    end: Queue.end(queue)
  })
  const permits = yield* Semaphore.make(Limits.rpcConcurrency)
  const begin = Effect.fnUntraced(function*(call: RpcMessages.Call) {
    const problem = RpcMessages.problemOf(call)
    if (problem !== undefined) return yield* connection.fail(call.id, problem)
    if (isStream(call.tag)) return yield* connection.begin(call, Effect.void)
    yield* permits.take(1)
    yield* connection.begin(call, permits.release(1))
  })
  yield* Effect.forEach(calls, begin, { discard: true }).pipe(
    Effect.andThen(connection.finish),
    Effect.forkScoped({ startImmediately: true })
  )
  const first = yield* Pull.catchDone(Queue.takeAll(queue), () => Effect.succeed([]))
  // A complete response is sent with its length.
  if (queue.state._tag === "Done") return HttpServerResponse.text(first.join(""), { contentType })
  const lines = Stream.concat(Stream.fromArray(first), Stream.fromQueue(queue))
  return HttpServerResponse.stream(Stream.encodeText(lines), { contentType })
})

export const handle = (connections: Connections) =>
  HttpServerRequest.HttpServerRequest.pipe(
    Effect.flatMap(readCalls),
    Effect.flatMap((calls) => respond(connections, calls)),
    Effect.catch(Effect.succeed)
  )
