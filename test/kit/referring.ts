/** Tasks that refer to another one: calls of the service, and what its database stores. */
import { assert, onTestFinished } from "vitest"
import { eventually } from "./Service.ts"
import type { System } from "./System.ts"

/** The error of a task whose predecessor is gone. */
export const deleted = "The task that this one repeats or continues was deleted."

export const referring = ({ core, database, service }: System) => ({
  rerun: (token: string, uuid: string, body: object = {}) =>
    service.call("POST", `/api/tasks/${uuid}/rerun`, token, body),
  remove: async (token: string, uuid: string) =>
    assert.strictEqual((await service.call("DELETE", `/api/tasks/${uuid}`, token)).status, 204),
  ended: (token: string, uuid: string) =>
    eventually(() => service.get(token, uuid), ({ body }) => body.completed_at !== null),
  /** Bytes of the stored request. */
  storedBytes: async (uuid: string) => {
    const [row] = await database.query<{ readonly bytes: number }>(
      `SELECT octet_length(request) AS bytes FROM task_requests WHERE task_uuid = '${uuid}'`
    )
    return Number(row?.bytes)
  },
  /** The core is away until the test ends or the result is called. */
  away: () => {
    const back = () => void (core.onStart = () => 202)
    core.onStart = () => 503
    onTestFinished(back)
    return back
  }
})
