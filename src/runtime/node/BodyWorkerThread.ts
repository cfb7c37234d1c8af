/** The worker thread of `BodyWorker`: decodes one body at a time. */
import { Effect, Predicate, Result } from "effect"
import { Digest } from "effect/crypto"
import * as v8 from "node:v8"
import * as vm from "node:vm"
import { parentPort } from "node:worker_threads"
import { bodies } from "../../http/handlers/body/Bodies.ts"
import { decodeBytes } from "../../http/handlers/body/JsonBody.ts"
import type { Job, Outcome } from "./BodyWorker.ts"

const decode = ({ bytes, name, operation }: Job): Promise<Outcome> =>
  Digest.Digest.pipe(
    Effect.flatMap((digest) =>
      decodeBytes<unknown>(digest, bodies[name], bytes, operation, () => void bytes.buffer.transfer(0))
    ),
    Effect.result,
    Effect.map(Result.match({
      onSuccess: (decoded): Outcome => ({ decoded }),
      onFailure: ({ errors, message }): Outcome => ({ errors, message })
    })),
    Effect.provide(Digest.layerWebCrypto),
    Effect.runPromise
  )

/** Bytes of a body after which the heap is collected. A collection takes about ten milliseconds. */
const bytesPerCollection = 4 * 1024 * 1024

v8.setFlagsFromString("--expose-gc")
const collect: () => void = vm.runInNewContext("gc")

/** The buffers of the large parts of a decoded body. They are members of objects, never items of arrays. */
const buffersOf = (value: unknown): Array<ArrayBuffer> => {
  if (value instanceof Uint8Array) return value.buffer instanceof ArrayBuffer ? [value.buffer] : []
  return Predicate.isObject(value) ? Object.values(value).flatMap(buffersOf) : []
}

parentPort?.on("message", (job: Job) => {
  const size = job.bytes.length
  void decode(job).then((outcome) => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    parentPort?.postMessage(outcome, buffersOf(outcome))
    // Garbage of this body would add to the peak memory of the next one.
    if (size > bytesPerCollection) setImmediate(collect)
  })
})
