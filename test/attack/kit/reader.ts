/**
 * A separate process that sends the requests in its standard input, one connection each, and reads the responses as fast as they
 * come. The output is a line when the requests have been sent, and then the bytes of each body; -1 for one that was cut off.
 */
import { once } from "node:events"
import * as http from "node:http"
import { text } from "node:stream/consumers"

export interface Reads {
  readonly url: string
  readonly token: string
  readonly paths: ReadonlyArray<string>
}

const { paths, token, url }: Reads = JSON.parse(await text(process.stdin))

const requests = paths.map((path) =>
  http.get(url + path, { agent: false, headers: { authorization: `Bearer ${token}` } })
)

const bytesOf = (request: http.ClientRequest) =>
  new Promise<number>((resolve) => {
    request.on("response", (response) => {
      let bytes = 0
      response.on("data", (chunk: Buffer) => bytes += chunk.length)
      response.on("end", () => resolve(response.statusCode === 200 ? bytes : -1)).on("error", () => resolve(-1))
    })
    request.on("error", () => resolve(-1))
  })

const sizes = requests.map(bytesOf)
await Promise.all(requests.map((request) => once(request, "finish")))
process.stdout.write("sent\n")
process.stdout.write(JSON.stringify(await Promise.all(sizes)))
