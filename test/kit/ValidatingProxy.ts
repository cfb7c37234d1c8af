/** The service behind a proxy that validates each request and each response against its two OpenAPI documents. */
import { createLogger } from "@stoplight/prism-core"
import { getHttpOperationsFromSpec } from "@stoplight/prism-http"
import { createServer } from "@stoplight/prism-http-server"
import { assert } from "vitest"
import type { Service } from "./Service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
export type Node = Record<string, any>

interface Violation {
  readonly location: ReadonlyArray<string>
  readonly message: string
}

export const documentAt = async (service: Service, path: string): Promise<Node> =>
  (await fetch(service.url + path)).json()

/** One document of both interfaces: no path and no schema of one differs in the other. */
const documentOf = async (service: Service) => {
  const [clients, internal] = await Promise.all(
    ["/openapi.json", "/internal/openapi.json"].map((path) => documentAt(service, path))
  ) as [Node, Node]
  return {
    ...clients,
    paths: { ...clients["paths"], ...internal["paths"] },
    components: Object.fromEntries(
      Object.entries<Node>(clients["components"]).map(([kind, named]) => [
        kind,
        { ...named, ...internal["components"][kind] }
      ])
    )
  } as Node
}

/** `change` edits the document first. */
export const startValidatingProxy = async (service: Service, change: (document: Node) => void = () => {}) => {
  const document = await documentOf(service)
  change(document)
  const server = createServer(await getHttpOperationsFromSpec(document), {
    cors: false,
    components: { logger: createLogger("proxy", { enabled: false }) },
    config: {
      isProxy: true,
      upstream: new URL(service.url),
      mock: { dynamic: false },
      checkSecurity: true,
      validateRequest: true,
      validateResponse: true,
      errors: false,
      upstreamProxy: undefined
    }
  })
  const url = await server.listen(0, "127.0.0.1")
  const tried = new Set<string>()
  const call = async (method: string, path: string, token: string | undefined, body?: unknown, headers = {}) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined || body instanceof FormData ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) })
    })
    const violations: ReadonlyArray<Violation> = JSON.parse(response.headers.get("sl-violations") ?? "[]")
    const text = await response.text()
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
    tried.add(`${method} ${path.split("?")[0]}`)
    return { status: response.status, violations, body: isJson && text.startsWith("{") ? JSON.parse(text) : text }
  }
  return {
    paths: document["paths"] as Node,
    /** The examples of requests by the name of the operation. */
    examples: Object.fromEntries(
      Object.values<Node>(document["paths"]).flatMap((methods) => Object.values<Node>(methods)).map((operation) => [
        operation["operationId"],
        operation["requestBody"]?.content["application/json"]?.examples.example.value
      ])
    ),
    call,
    /** Sends a valid request. Request and response must conform to the document. */
    ok: async (status: number, ...[method, path, of, body, headers]: Parameters<typeof call>) => {
      const answer = await call(method, path, of, body, headers)
      assert.strictEqual(answer.status, status, `${method} ${path} ${JSON.stringify(answer.body)}`)
      assert.deepStrictEqual(answer.violations, [], `${method} ${path}`)
      return answer.body
    },
    /** Sends a valid request. The response must be a documented one. */
    answered: async (...[method, path, of, body, headers]: Parameters<typeof call>) => {
      const { body: answer, status, violations } = await call(method, path, of, body, headers)
      assert.isBelow(status, 500, `${method} ${path} ${JSON.stringify(answer)}`)
      assert.deepStrictEqual(violations, [], `${method} ${path}`)
    },
    /** Sends an invalid request. The response must conform to the document. */
    refused: async (status: number, ...[method, path, of, body, headers]: Parameters<typeof call>) => {
      const answer = await call(method, path, of, body, headers)
      assert.strictEqual(answer.status, status, `${method} ${path} ${JSON.stringify(answer.body)}`)
      const violations = answer.violations.filter(({ location }) => location[0] === "response")
      assert.deepStrictEqual(violations, [], `${method} ${path}`)
    },
    /** The documented operations below some paths that no call has used. */
    untried: (isOwn: (path: string) => boolean) =>
      Object.entries<Node>(document["paths"]).filter(([path]) => isOwn(path)).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`)
      ).filter((operation) => {
        const pattern = new RegExp(`^${operation.replace(/\{\w+\}/g, "[^ /]+")}$`)
        return ![...tried].some((line) => pattern.test(line))
      }),
    close: () => server.close()
  }
}
