/** The test kit as a user of the package has it: in memory, on virtual time. */
import { createTestService } from "../../src/runtime/testing/Testing.ts"
import type { Door, Run } from "./Gateway.ts"

export const kit: Door = {
  isVirtual: true,
  acceptance: 30,
  limit: 20,
  retention: 30 * 86_400,
  start: async () => {
    const service = await createTestService()
    service.core.behave("silent")
    const run = async (uuid: string, earlier?: Run): Promise<Run> => {
      const { runId, taskId } = await service.core.runOf(uuid)
      return runId === earlier?.run_id ? run(uuid, earlier) : { task_id: taskId, run_id: runId }
    }
    return {
      url: service.url,
      fetch: service.fetch,
      internalToken: service.internalToken,
      hookUrl: "https://client.example/hook",
      token: service.token,
      answerRuns: (status) => service.core.behave(status === 202 ? "silent" : status),
      run,
      starts: (uuid) => service.core.runs().filter(({ taskId }) => taskId === uuid).length,
      stops: ({ run_id }) => service.core.stops().flatMap(({ reason, runId }) => runId === run_id ? [reason] : []),
      posts: (uuid) =>
        service.webhooks.received().flatMap(({ at, body, headers, task }) =>
          task.uuid === uuid ? [{ headers, body, at: Date.parse(at) }] : []
        ),
      answerPosts: service.webhooks.answerWith,
      pass: (seconds) => service.advance(`${seconds} seconds`),
      close: service.close
    }
  }
}
