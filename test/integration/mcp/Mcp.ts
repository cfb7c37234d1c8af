/** The official MCP clients on this service: the one of the older revisions, and the one of both eras. */
import * as modern from "@modelcontextprotocol/client"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { assert } from "vitest"
import { mint, type Service } from "../../kit/Service.ts"

const info = { name: "tests", version: "1" }

interface Options {
  readonly url: URL
  readonly init: { readonly requestInit: { readonly headers: Readonly<Record<string, string>> } }
}

const optionsOf = async (service: Service, sub: string): Promise<Options> => ({
  url: new URL(`${service.url}/mcp`),
  init: { requestInit: { headers: { authorization: `Bearer ${await mint(sub)}` } } }
})

/** A tool as its result says, whatever client called it. */
export interface Called {
  readonly isError?: boolean | undefined
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into results of every tool
  readonly structuredContent?: any
  // oxlint-disable-next-line typescript/no-explicit-any -- the same
  readonly content: ReadonlyArray<any>
}

interface CallOptions {
  readonly onprogress?: (progress: { readonly progress: number; readonly message?: string | undefined }) => void
  readonly signal?: AbortSignal
}

export interface Connected {
  readonly tools: () => Promise<
    ReadonlyArray<{ readonly name: string; readonly inputSchema: unknown; readonly outputSchema?: unknown }>
  >
  readonly call: (name: string, args?: Record<string, unknown>, options?: CallOptions) => Promise<Called>
  readonly version: string | undefined
  readonly instructions: string | undefined
  readonly close: () => Promise<void>
}

const connectSdk = async (service: Service, sub: string): Promise<Connected> => {
  const client = new Client(info)
  const { init, url } = await optionsOf(service, sub)
  const transport = new StreamableHTTPClientTransport(url, init)
  await client.connect(transport as never)
  return {
    tools: async () => (await client.listTools()).tools,
    call: async (name, args = {}, options = {}) =>
      (await client.callTool({ name, arguments: args }, undefined, options as never)) as Called,
    version: transport.protocolVersion,
    instructions: client.getInstructions(),
    close: () => client.close()
  }
}

const connectClient = (mode: "legacy" | "auto") => async (service: Service, sub: string): Promise<Connected> => {
  const client = new modern.Client(info, { versionNegotiation: { mode } })
  const { init, url } = await optionsOf(service, sub)
  const transport = new modern.StreamableHTTPClientTransport(url, init)
  await client.connect(transport)
  return {
    tools: async () => (await client.listTools()).tools,
    call: async (name, args = {}, options = {}) =>
      (await client.callTool({ name, arguments: args }, options as never)) as Called,
    version: client.getNegotiatedProtocolVersion(),
    instructions: client.getInstructions(),
    close: () => client.close()
  }
}

export const clients = [
  ["sdk 1.32.2", "2025-11-25", connectSdk],
  ["client 2.4.0", "2025-11-25", connectClient("legacy")],
  ["client 2.4.0, auto", "2026-07-28", connectClient("auto")]
] as const

const revision = "2026-07-28"
export const withTasks = { extensions: { "io.modelcontextprotocol/tasks": {} } }

/** A request of the current revision, from a client with the Tasks extension. */
export const sendTo = (
  service: Service,
  token: string,
  method: string,
  params: Readonly<Record<string, unknown>>,
  capabilities: object = withTasks
) => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": revision,
    "io.modelcontextprotocol/clientCapabilities": capabilities
  }
  const name = String(params["name"] ?? params["taskId"])
  const headers = { "mcp-protocol-version": revision, "mcp-method": method, "mcp-name": name }
  return service.call("POST", "/mcp", token, { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }, headers)
}

/** Asserts that the text of a result is its structured content. */
export const checked = ({ content, structuredContent, ...rest }: Called) => {
  assert.deepStrictEqual(JSON.parse(content[0].text), structuredContent)
  return { ...structuredContent, isError: rest.isError }
}
