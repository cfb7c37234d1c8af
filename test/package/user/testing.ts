import { createTestService } from "async-task-service/testing"

declare const console: { log(...what: ReadonlyArray<unknown>): void }

const service = await createTestService()
const { tasks } = service.client("ann")
const { uuid } = await tasks.create({ assistant_id: 1, input: [{ type: "text", text: "Why?" }] })
const before = performance.now()
await service.advance("24 hours")
const { error } = await tasks.get(uuid)
console.log(`${error}, ${Math.round(performance.now() - before)} ms`)
await service.close()
