/**
 * Uploads one file of exactly the maximum size through the service to a backend in another process, compared with a
 * plain `node:http` proxy that only pipes. Both run alternately. Memory is the growth of the resident set since the
 * first byte.
 */
import { createHash } from "node:crypto"
import { once } from "node:events"
import { request } from "node:http"
import { text } from "node:stream/consumers"
import * as Limits from "../../src/domain/Limits.ts"
import { formTail, headersOf, partHead } from "../kit/forms.ts"
import { compare, numbersOf, startBench, startScript } from "./bench.ts"
import { cpuOfProcess, peakMemory, resetPeakMemory, residentMemory } from "./processes.ts"

const { bytes, rounds } = numbersOf({ rounds: 3, bytes: Limits.fileBytes })
/** MiB. */
const memoryBound = 64

const backend = await startScript("uploadBackend.ts", {}, "/storage/base")
const peer = await startScript("uploadPeer.ts", { BACKEND_URL: backend.url }, "/storage/base")
const bench = await startBench({ ASSISTANT_BACKEND_URL: backend.url })
const service = await bench.start()

/** Random bytes, which neither compress nor repeat within one write. */
const block = Buffer.alloc(1024 * 1024)
for (let at = 0, seed = Buffer.from("upload"); at < block.length; at += seed.length) {
  seed = createHash("sha512").update(seed).digest()
  seed.copy(block, at)
}

const blocks = function*() {
  for (let left = bytes; left > 0; left -= block.length) yield left < block.length ? block.subarray(0, left) : block
}

const expected = createHash("sha256")
for (const part of blocks()) expected.update(part)
const sha256 = expected.digest("hex")

let worst = 0

const send = async (url: string, pid: number) => {
  const [base, cpu, started] = [residentMemory(pid), cpuOfProcess(pid), performance.now()]
  resetPeakMemory(pid)
  const call = request(`${url}/api/files`, {
    method: "POST",
    headers: { ...headersOf, "content-length": partHead.length + bytes + formTail.length }
  })
  const answered = once(call, "response")
  call.write(partHead)
  for (const part of blocks()) if (!call.write(part)) await once(call, "drain")
  call.end(formTail)
  const [response] = await answered
  const answer = await text(response)
  if (!answer.includes(sha256)) throw new Error(`${response.statusCode} ${answer}`)
  const rate = bytes / 1000 / (performance.now() - started)
  const over = peakMemory(pid) - base
  if (pid === service.process.pid) worst = Math.max(worst, over)
  const seconds = ((cpuOfProcess(pid) - cpu) / 1000).toFixed(2)
  return { rate, text: `${rate.toFixed(0)} MB/s, ${seconds} s CPU, peak ${over.toFixed(0)} MiB over base` }
}

await compare(
  `upload of ${bytes} bytes`,
  rounds,
  { name: "ours", measure: () => send(service.url, service.process.pid!) },
  { name: "plain proxy", measure: () => send(peer.url, peer.pid) }
)
console.log(`at most ${worst.toFixed(0)} MiB over base`)
if (worst > memoryBound) process.exitCode = 1
await service.stop()
for (const script of [peer, backend]) script.stop()
await bench.close()
