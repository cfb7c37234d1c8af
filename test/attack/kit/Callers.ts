/** Many clients that call again as soon as they have a response, on keep-alive connections. */
import { Agent, request } from "node:http"

export interface Call {
  /** `performance.now()` when the request was sent. */
  readonly startedAt: number
  readonly duration: number
  /** Zero without a response. */
  readonly status: number
}

export interface Request {
  readonly method: string
  readonly path: string
  readonly body?: string
}

const timeout = 30_000

const call = (agent: Agent, url: string, token: string, { body, method, path }: Request): Promise<Call> => {
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const end = (status: number) => resolve({ startedAt, duration: performance.now() - startedAt, status })
    const sent = request(url + path, {
      agent,
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) })
      },
      timeout
    }, (response) => response.resume().on("end", () => end(response.statusCode ?? 0)).on("error", () => end(0)))
    sent.on("timeout", () => sent.destroy()).on("error", () => end(0)).end(body)
  })
}

/** Starts `count` callers; `next` creates a caller's next request. `stop` returns all their calls. */
export const startCallers = (
  url: string,
  count: number,
  token: (caller: number) => string,
  next: (caller: number) => Request,
  pause = 0
) => {
  const agent = new Agent({ keepAlive: true, maxSockets: count })
  const calls: Array<Call> = []
  const over = new AbortController()
  const loops = Array.from({ length: count }, async (_, caller) => {
    while (!over.signal.aborted) {
      calls.push(await call(agent, url, token(caller), next(caller)))
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause))
    }
  })
  return {
    calls,
    stop: async () => {
      over.abort()
      await Promise.all(loops)
      agent.destroy()
      return calls
    }
  }
}
