/** A service on a real socket that records each request and then responds as the test defines. */
import type { IncomingMessage, ServerResponse } from "node:http"
import { text } from "node:stream/consumers"
import { answerJson, LoopbackServer, type Respond } from "./LoopbackServer.ts"

interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage["headers"]
  readonly body: string
  /** Milliseconds of the monotonic clock. */
  readonly at: number
}

type Script = (request: Received, response: ServerResponse, number: number) => unknown

export class ScriptedService extends LoopbackServer {
  readonly received: Array<Received> = []
  script: Script = (_, response) => answerJson(response, 200, {})

  override respond: Respond = async (request, response) => {
    const { headers, method = "", url: path = "" } = request
    const at = performance.now()
    const body = await text(request).catch(() => undefined)
    if (body === undefined) return
    const received = { method, path, headers, body, at }
    this.received.push(received)
    this.script(received, response, this.received.length)
  }
}

/** A webhook target. It accepts every POST unless a test defines otherwise. */
export class WebhookTarget extends ScriptedService {
  override script: Script = (_, response) => response.writeHead(204).end()

  postsOf(taskId: string) {
    return this.received.filter(({ headers }) => headers["x-task-uuid"] === taskId)
  }
}
