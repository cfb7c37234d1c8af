/** A webhook target on a real socket that records every POST and then responds as the test defines. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { text } from "node:stream/consumers"

export interface ReceivedPost {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** Milliseconds of the monotonic clock. */
  readonly at: number
}

export class WebhookTarget {
  readonly posts: Array<ReceivedPost> = []
  onPost: (post: ReceivedPost, response: ServerResponse) => unknown = (_, response) => response.writeHead(204).end()
  readonly #server = createServer(async (request, response) => {
    const at = performance.now()
    const post = { url: request.url ?? "", headers: request.headers, body: await text(request), at }
    this.posts.push(post)
    this.onPost(post, response)
  })

  async listen() {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", () => resolve()))
    return this
  }

  get origin() {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  postsOf(taskId: string) {
    return this.posts.filter(({ headers }) => headers["x-task-uuid"] === taskId)
  }

  async close() {
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }
}
