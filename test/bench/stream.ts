/**
 * Memory and CPU time of the service with 200 tasks that stream from a model at the same time, next to the model's
 * mock.
 */
import * as fs from "node:fs"
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { mint, Service } from "../kit/Service.ts"

const tasks = 200
const chunks = 250
const chunkSize = 20

const directory = temporaryDirectory()
const content = "Words that a model says one after another, at its own pace. ".repeat(100).slice(0, chunks * chunkSize)
const mock = await ModelMock.start(
  [{ match: { userMessage: "stream" }, response: { content }, latency: 40, chunkSize }],
  ["--journal-max", "10"]
)
const service = await Service.start({
  DATA_DIR: directory,
  OPENAI_BASE_URL: mock.url,
  OPENAI_MODEL: "mock",
  MAX_ACTIVE_TASKS: "1000"
})
const token = await mint("streamer")

/** CPU time in seconds and memory in MiB of one process; Linux only. */
const usageOf = (pid: number | undefined) => {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ")
  const rss = Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024
  return { cpu: (Number(fields[11]) + Number(fields[12])) / 100, rss }
}

const run = async (count: number) => {
  const [own, theirs] = [usageOf(service.process.pid), usageOf(mock.process.pid)]
  let most = own.rss
  const watch = setInterval(() => most = Math.max(most, usageOf(service.process.pid).rss), 100)
  const started = performance.now()
  const uuids = await Promise.all(
    Array.from(
      { length: count },
      async () => (await service.create(token, "stream", { assistant_id: 10 })).body.uuid as string
    )
  )
  const ended = await Promise.all(uuids.map(async (uuid) => {
    for (;;) {
      const { body } = await service.call("GET", `/api/tasks/${uuid}?wait=60`, token)
      if (/completed|failed/.test(body.status)) {
        return body.status === "completed" && body.turn.output[0].text === content
      }
    }
  }))
  const seconds = (performance.now() - started) / 1000
  clearInterval(watch)
  const [ownAfter, theirsAfter] = [usageOf(service.process.pid), usageOf(mock.process.pid)]
  return {
    whole: ended.filter(Boolean).length,
    seconds: seconds.toFixed(1),
    "MiB before": own.rss.toFixed(0),
    "MiB at most": most.toFixed(0),
    "cpu s, service": (ownAfter.cpu - own.cpu).toFixed(1),
    "cpu s, mock": (theirsAfter.cpu - theirs.cpu).toFixed(1),
    "µs a chunk": ((ownAfter.cpu - own.cpu) * 1e6 / (count * chunks)).toFixed(0)
  }
}

try {
  const warm = await run(20)
  const measured = await run(tasks)
  console.table({ "20, to warm up": warm, [`${tasks} at once`]: measured })
} finally {
  await service.stop()
  await mock.stop()
  removeDirectory(directory)
}
