/**
 * A separate process that sends the requests in its standard input, so that the cost of sending is not measured.
 * The input is a JSON array of volleys, which are sent one after another. The output is their statuses, in order.
 */
import * as http from "node:http"
import { text } from "node:stream/consumers"
import { bodyOf, type Shape } from "./shapes.ts"

export interface Volley {
  readonly path: string
  /** One request is sent with each, concurrently. */
  readonly tokens: ReadonlyArray<string>
  readonly shape: Shape
  /** The body before and after the shape's value. */
  readonly around: readonly [string, string]
  /** Approximate bytes of a whole body. */
  readonly bytes: number
}

const [url = ""] = process.argv.slice(2)
const volleys: ReadonlyArray<Volley> = JSON.parse(await text(process.stdin))

const post = (path: string, token: string, body: Buffer) =>
  new Promise<number>((resolve) => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": body.length
    }
    const request = http.request(url + path, { method: "POST", agent: false, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0)).on("error", () => resolve(0))
    })
    // The response may arrive before the whole body is sent, and then the connection closes.
    request.on("error", () => resolve(0))
    request.end(body)
  })

const statuses: Array<ReadonlyArray<number>> = []
for (const { around, bytes, path, shape, tokens } of volleys) {
  const body = bodyOf(shape, bytes, ...around)
  statuses.push(await Promise.all(tokens.map((token) => post(path, token, body))))
}
process.stdout.write(JSON.stringify(statuses))
