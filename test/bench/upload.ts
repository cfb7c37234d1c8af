/**
 * Uploads one file of exactly the maximum size through the service to a backend in another process, compared with a
 * plain `node:http` proxy that only pipes. Both run alternately. Memory is the growth of the resident set since the
 * first byte.
 */
import { spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import * as fs from "node:fs"
import { request } from "node:http"
import * as path from "node:path"
import * as Limits from "../../src/domain/Limits.ts"
import { eventually, freePort, mint, Service } from "../kit/Service.ts"
import { startPostgres } from "../kit/standalone.ts"

const rounds = Number(process.argv[2] ?? 3)
const bytes = Number(process.argv[3] ?? Limits.fileBytes)
const memoryBound = 64 * 1024 * 1024

const database = await startPostgres()

const start = async (script: string, settings: Readonly<Record<string, string>>) => {
  const port = await freePort()
  const child = spawn(process.execPath, [path.join(import.meta.dirname, script)], {
    env: { PATH: process.env["PATH"], PORT: String(port), ...settings },
    stdio: "inherit"
  })
  process.once("exit", () => child.kill())
  const url = `http://127.0.0.1:${port}`
  await eventually(() => fetch(`${url}/storage/base`).then(() => true, () => false), (up) => up)
  return { url, child }
}

const backend = await start("uploadBackend.ts", {})
const peer = await start("uploadPeer.ts", { BACKEND_URL: backend.url })
const service = await Service.start({ DATABASE_URL: database.url, ASSISTANT_BACKEND_URL: backend.url })
const token = await mint("uploader")

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

const residentOf = (pid: number | undefined) =>
  Number(/VmRSS:\s+(\d+) kB/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024

const cpuOf = (pid: number | undefined) => {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ", 2)[1]?.split(" ") ?? []
  return (Number(stat[11]) + Number(stat[12])) / 100
}

const send = async (url: string, pid: number | undefined) => {
  const base = residentOf(pid)
  const cpu = cpuOf(pid)
  let peak = base
  const sampler = setInterval(() => peak = Math.max(peak, residentOf(pid)), 50)
  const started = performance.now()
  const boundary = "benchmark-boundary"
  const head = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="big.txt"\r\n`
    + "Content-Type: text/plain\r\n\r\n"
  const tail = `\r\n--${boundary}--\r\n`
  const call = request(`${url}/api/files`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": `multipart/form-data; boundary=${boundary}`,
      "content-length": head.length + bytes + tail.length
    }
  })
  const answered = once(call, "response")
  call.write(head)
  for (const part of blocks()) if (!call.write(part)) await once(call, "drain")
  call.end(tail)
  const [response] = await answered
  let text = ""
  for await (const chunk of response) text += chunk
  clearInterval(sampler)
  if (!text.includes(sha256)) throw new Error(`${response.statusCode} ${text}`)
  const seconds = (performance.now() - started) / 1000
  return { rate: bytes / 1_000_000 / seconds, over: peak - base, cpu: cpuOf(pid) - cpu }
}

const median = (values: ReadonlyArray<number>) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
const mebibytes = (size: number) => `${(size / 1024 / 1024).toFixed(0)} MiB`

const ratios: Array<number> = []
let worst = 0
for (let round = 1; round <= rounds; round++) {
  const us = await send(service.url, service.process.pid)
  const them = await send(peer.url, peer.child.pid)
  ratios.push(us.rate / them.rate)
  worst = Math.max(worst, us.over)
  console.log(
    `round ${round}: ours ${us.rate.toFixed(0)} MB/s, ${us.cpu.toFixed(2)} s CPU, peak ${
      mebibytes(us.over)
    } over base; `
      + `plain proxy ${them.rate.toFixed(0)} MB/s, ${them.cpu.toFixed(2)} s CPU, peak ${
        mebibytes(them.over)
      } over base; `
      + `ratio ${(us.rate / them.rate).toFixed(2)}`
  )
}
console.log(
  `upload of ${bytes} bytes: ${median(ratios).toFixed(2)} of a plain proxy (median of ${rounds} alternating rounds), `
    + `at most ${mebibytes(worst)} over base`
)

await service.stop()
for (const { child } of [peer, backend]) child.kill()
await database.stop()
if (worst > memoryBound) throw new Error(`more than ${mebibytes(memoryBound)} over base`)
