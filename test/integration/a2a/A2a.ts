/** Requests of A2A clients, as the official SDKs send them. */
import { mint, type Service } from "../../kit/Service.ts"

export const clientTools = "urn:async-task-service:a2a:client-tools:v1"
export const revision = "urn:async-task-service:a2a:revision:v1"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  readonly body: any
}

export interface Client {
  readonly post: (body: string, headers?: Readonly<Record<string, string>>, path?: string) => Promise<Response>
  readonly call: (method: string, params?: unknown, headers?: Readonly<Record<string, string>>) => Promise<Answer>
  /** The results of a stream as they arrive. */
  readonly stream: (
    method: string,
    params: unknown,
    headers?: Readonly<Record<string, string>>
    // oxlint-disable-next-line typescript/no-explicit-any -- the same
  ) => AsyncGenerator<any, void>
}

export const clientOf = async (service: Service, sub: string, version = "1.0"): Promise<Client> => {
  const authorization = `Bearer ${await mint(sub)}`
  const post: Client["post"] = (body, headers = {}, path = "/a2a") =>
    fetch(service.url + path, {
      method: "POST",
      headers: { authorization, "content-type": "application/json", "a2a-version": version, ...headers },
      body
    })
  const bodyOf = (method: string, params: unknown) => JSON.stringify({ jsonrpc: "2.0", id: 7, method, params })
  return {
    post,
    call: async (method, params = {}, headers) => {
      const response = await post(bodyOf(method, params), headers)
      return { status: response.status, headers: response.headers, body: await response.json() }
    },
    stream: async function*(method, params, headers) {
      const response = await post(bodyOf(method, params), headers)
      if (response.headers.get("content-type") !== "text/event-stream") {
        throw new Error(`no stream: ${await response.text()}`)
      }
      const decoder = new TextDecoder()
      let rest = ""
      for await (const chunk of response.body!) {
        const events = (rest + decoder.decode(chunk, { stream: true })).split("\n\n")
        rest = events.pop() ?? ""
        for (const event of events) {
          if (event.startsWith("data: ")) yield JSON.parse(event.slice(6)).result
        }
      }
    }
  }
}

let messages = 0
export const messageOf = (text: string, more: object = {}) => ({
  messageId: `m${++messages}`,
  role: "ROLE_USER",
  parts: [{ text }],
  ...more
})
export const atOnce = { returnImmediately: true }

/** Everything of a stream. */
export const all = async <A>(items: AsyncIterable<A>): Promise<Array<A>> => {
  const found: Array<A> = []
  for await (const item of items) found.push(item)
  return found
}
