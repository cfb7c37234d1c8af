/** The test kit: rules that take hours, in milliseconds. It needs no running service. */
import { strict as assert } from "node:assert"
import { createTestService } from "../../src/runtime/testing/Testing.ts" // async-task-service/testing

const service = await createTestService()
const { tasks } = service.client("ann")
const question = { assistant_id: 1, input: [{ type: "text", text: "Why?" }] } as const

// A task whose client never answers fails after its time limit.
const waiting = await tasks.create({ ...question, max_execution_time: 3600 })
await service.core.interrupt(waiting.uuid, { approve: { amount: 100 } })
await service.advance("59 minutes")
assert.equal((await tasks.get(waiting.uuid)).status, "interrupted")
await service.advance("1 minute")
assert.equal((await tasks.get(waiting.uuid)).error, "Task exceeded maximum execution time (3600s)")

// A webhook is attempted five times: after 10, 30, 60 and 120 seconds.
service.webhooks.answerWith(500)
const finished = await tasks.create({ ...question, callback_url: "https://client.example/hook" })
await service.core.complete(finished.uuid, "done")
await service.advance("10 minutes")
assert.equal(service.webhooks.received().length, 5)

// A core that is down for more than 30 seconds fails the task.
service.core.behave("down")
const stuck = await tasks.create(question)
await service.advance("30 seconds")
assert.match((await tasks.get(stuck.uuid)).error ?? "", /^Task was not accepted/)

await service.close()
console.log("an hour and ten minutes passed")
