/**
 * A process that sends what its standard input says, so that the cost of sending is not measured with what is attacked.
 * The input is one JSON array of volleys, which are sent one after the other; the output their statuses, in order.
 */
import * as http from "node:http"
import { text } from "node:stream/consumers"
import { bodyOf, type Shape } from "./shapes.ts"

export interface Volley {
  readonly path: string
  /** One request is sent with each, all at once. */
  readonly tokens: ReadonlyArray<string>
  readonly shape: Shape
  /** What stands before and after the shape's value. */
  readonly around: readonly [string, string]
  /** Of a whole body, about. */
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
    // An answer may come before the body has been sent, and then the connection goes.
    request.on("error", () => resolve(0))
    request.end(body)
  })

const statuses: Array<ReadonlyArray<number>> = []
for (const { around, bytes, path, shape, tokens } of volleys) {
  const body = bodyOf(shape, bytes, ...around)
  statuses.push(await Promise.all(tokens.map((token) => post(path, token, body))))
}
process.stdout.write(JSON.stringify(statuses))
