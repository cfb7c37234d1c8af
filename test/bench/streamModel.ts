/** Memory and CPU time of the service with tasks that stream from a model at the same time, next to the model's mock. */
import { removeDirectory, temporaryDirectory } from "../kit/directories.ts"
import { ModelMock } from "../kit/ModelMock.ts"
import { mint, Service } from "../kit/Service.ts"
import { numbersOf } from "./bench.ts"
import { cpuOfProcess, peakMemory, resetPeakMemory, residentMemory } from "./processes.ts"

const { rounds, tasks } = numbersOf({ tasks: 200, rounds: 3 })
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

const run = async (count: number) => {
  const [own, theirs] = [service.process.pid!, mock.process.pid!]
  const before = { own: cpuOfProcess(own), theirs: cpuOfProcess(theirs), memory: residentMemory(own) }
  resetPeakMemory(own)
  const started = performance.now()
  const create = async () => (await service.create(token, "stream", { assistant_id: 10 })).body.uuid as string
  const uuids = await Promise.all(Array.from({ length: count }, create))
  const ended = await Promise.all(uuids.map(async (uuid) => {
    for (;;) {
      const { body } = await service.call("GET", `/api/tasks/${uuid}?wait=60`, token)
      if (/completed|failed/.test(body.status)) {
        return body.status === "completed" && body.turn.output[0].text === content
      }
    }
  }))
  const seconds = (performance.now() - started) / 1000
  const [cpu, cpuOfMock] = [(cpuOfProcess(own) - before.own) / 1000, (cpuOfProcess(theirs) - before.theirs) / 1000]
  return {
    whole: ended.filter(Boolean).length,
    seconds: seconds.toFixed(1),
    "MiB before": before.memory.toFixed(0),
    "MiB at most": peakMemory(own).toFixed(0),
    "cpu s, service": cpu.toFixed(1),
    "cpu s, mock": cpuOfMock.toFixed(1),
    ratio: (cpu / cpuOfMock).toFixed(1),
    "µs a chunk": (cpu * 1e6 / (count * chunks)).toFixed(0)
  }
}

try {
  const results: Record<string, Awaited<ReturnType<typeof run>>> = { "20, to warm up": await run(20) }
  for (let round = 1; round <= rounds; round++) results[`${tasks} at once, round ${round}`] = await run(tasks)
  console.table(results)
} finally {
  await service.stop()
  await mock.close()
  removeDirectory(directory)
}
