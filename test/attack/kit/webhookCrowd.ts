/** Many webhooks to targets that hang or refuse connections, beside one target that answers at every address. */
import { once } from "node:events"
import { createServer as createHttpServer } from "node:http"
import { type AddressInfo, createServer, type Socket } from "node:net"
import { complete } from "../../kit/ScriptedCore.ts"
import { eventually, mint, type Service } from "../../kit/Service.ts"
import type { System } from "../../kit/System.ts"

/** A target at every loopback address. */
export const openTarget = async () => {
  const received = new Map<string, number>()
  const server = createHttpServer((request, response) => {
    received.set(String(request.headers["x-task-uuid"]), performance.now())
    request.resume()
    response.writeHead(204).end()
  }).listen(0, "0.0.0.0")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  return {
    urlOf: (address: string) => `http://${address}:${port}/hook`,
    /** When a webhook of the task arrived, in milliseconds. */
    receivedAt: (uuid: string) => received.get(uuid),
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

/** Accepts connections at every loopback address and never answers. */
export const openHole = async () => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}))
    socket.once("close", () => sockets.delete(socket))
  }).listen(0, "0.0.0.0")
  await once(server, "listening")
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    }
  }
}

interface Crowd {
  readonly deliveries: number
  readonly targets: number
  readonly sub: string
  /** Nobody listens on the default. */
  readonly port?: number
}

/** The statement that inserts due webhooks of one user to many targets. */
export const enqueueMany = ({ deliveries, port = 1, sub, targets }: Crowd) =>
  `WITH made AS (
    INSERT INTO tasks (uuid, sub, status, revision, run_id, max_execution_time, created_at, completed_at, deadline_at,
      token_id, assistant_id)
    SELECT gen_random_uuid(), '${sub}', 'completed', 1, gen_random_uuid(), 60, now(), now(), now(), 'token', 1
    FROM generate_series(1, ${deliveries}) RETURNING uuid
  ), placed AS (
    SELECT uuid, 'http://127.0.' || 1 + n / 250 || '.' || 1 + n % 250 || ':${port}' AS origin
    FROM (SELECT uuid, row_number() OVER () % ${targets} AS n FROM made) AS numbered
  )
  INSERT INTO webhook_deliveries (task_uuid, revision, status, sub, url, origin, signed, created_at, due_at)
  SELECT uuid, 1, 'completed', '${sub}', origin || '/hook', origin, false, now(), now() FROM placed`

/** Milliseconds from the end of a task to its webhook; Infinity if it does not arrive within 10 s. */
export const latencyOf = async (
  { core }: Pick<System, "core">,
  service: Service,
  target: Awaited<ReturnType<typeof openTarget>>,
  sub: string,
  address: string
): Promise<number> => {
  const { body } = await service.create(await mint(sub), "x", { callback_url: target.urlOf(address) })
  const run = await core.run(String(body.uuid))
  const begun = performance.now()
  await complete(run)
  const at = await eventually(async () => target.receivedAt(body.uuid), (found) => found !== undefined, 10_000)
    .catch(() => undefined)
  return at === undefined ? Infinity : at - begun
}
