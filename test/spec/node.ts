/** One node as a process, on Postgres, with a core and a webhook target on sockets. */
import { WebhookTarget } from "../kit/ScriptedService.ts"
import { eventually, internalToken, mint } from "../kit/Service.ts"
import { startSystem } from "../kit/System.ts"
import type { Door } from "./Gateway.ts"

export const node: Door = {
  isVirtual: false,
  acceptance: 8,
  limit: 8,
  retention: 8,
  start: async ({ acceptance, retention } = {}) => {
    const target = await new WebhookTarget().listen()
    const system = await startSystem({
      WEBHOOK_ALLOW_PRIVATE: "true",
      ...(acceptance === undefined ? {} : { ACCEPTANCE_TIMEOUT: `${acceptance} seconds` }),
      ...(retention === undefined ? {} : { RETENTION: `${retention} seconds` })
    })
    const { core, database, runOf, service } = system
    /** The clock of the database decides. */
    const now = async () => (await database.query<{ now: Date }>("SELECT now()"))[0]!.now.getTime()
    return {
      url: service.url,
      fetch: globalThis.fetch,
      internalToken,
      hookUrl: `${target.url}/hook`,
      token: mint,
      answerRuns: (status) => void (core.onStart = () => status),
      run: async (uuid, earlier) => {
        const { run_id, task_id } = await eventually(
          () => runOf(uuid),
          ({ run_id }) => run_id !== earlier?.run_id
        )
        return { run_id, task_id }
      },
      starts: (uuid) => core.runs.filter(({ task_id }) => task_id === uuid).length,
      stops: ({ run_id }) => core.stops.flatMap(({ reason, runId }) => runId === run_id ? [reason] : []),
      posts: (uuid) => target.postsOf(uuid),
      answerPosts: (status) => void (target.script = (_, response) => response.writeHead(status).end()),
      pass: async (seconds) => {
        const end = await now() + seconds * 1000
        await eventually(now, (at) => at >= end, seconds * 1000 + 10_000)
      },
      close: async () => {
        await system.close()
        await target.close()
      }
    }
  }
}
