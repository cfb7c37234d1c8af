/**
 * A process that sends what it is told on its standard input, one JSON line, so that the cost of sending is not measured
 * with what is attacked. Bodies are generated here and sent at once; the statuses go to standard output as JSON.
 */
import * as http from "node:http"
import { text } from "node:stream/consumers"
import { bodyOf, type Shape } from "./shapes.ts"

export interface Order {
  readonly url: string
  readonly method: string
  readonly path: string
  /** One request is sent with each. */
  readonly tokens: ReadonlyArray<string>
  readonly shape: Shape
  /** What stands around the shape's value. */
  readonly before: string
  readonly after: string
  readonly bytes: number
}

const order: Order = JSON.parse(await text(process.stdin))
const body = bodyOf(order.shape, order.bytes, order.before, order.after)

const send = (token: string) =>
  new Promise<number>((resolve) => {
    const request = http.request(order.url + order.path, {
      method: order.method,
      agent: false,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "content-length": body.length
      }
    }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0)).on("error", () => resolve(0))
    })
    request.on("error", () => resolve(0))
    request.end(body)
  })

process.stdout.write(JSON.stringify(await Promise.all(order.tokens.map(send))))
