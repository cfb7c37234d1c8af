/**
 * Compares what the document of clients describes with what each client and the command line send: every operation with every parameter,
 * unless a list of exceptions gives a reason. The calls are really made, to a server that records them.
 */
import { SchemaAST } from "effect"
import { once } from "node:events"
import * as fs from "node:fs"
import * as path from "node:path"
import { assert, describe, it } from "vitest"
import { TaskServiceClient } from "../../src/http/client/promise/TaskServiceClient.ts"
import { InternalRpc } from "../../src/http/contract/rpc/Rpc.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import { operations } from "../docs/clientTypes.ts"
import { removeDirectory, temporaryDirectory } from "./directories.ts"
import { answerJson, LoopbackServer } from "./LoopbackServer.ts"
import { hasPython, runPython } from "./python.ts"
import { runHere } from "./runToEnd.ts"

/** How each of them makes a call with all of its parameters. */
export interface Calls {
  readonly promise?: (client: TaskServiceClient) => Promise<unknown>
  /** An expression of Python. */
  readonly python?: string
  readonly commands?: ReadonlyArray<string>
  /** Its tag; the fields of its payload are its parameters. */
  readonly rpc?: string
}

type Who = keyof Calls

/** By group, by operation, or by operation and parameter: who lacks it, and why. */
export type Exceptions = Readonly<Record<string, Partial<Record<Who, string>>>>

/** What any call and any output of a command can read. */
const answer = {
  uuid: "u",
  id: "i",
  status: "completed",
  error: null,
  created_at: "2026-11-21T08:30:00.123456Z",
  completed_at: null,
  turn: null,
  url: "http://storage.test",
  type: "file",
  file: { id: "1", name: "a.txt", mime_type: "text/plain", provider_data: { path: "1/a.txt" } },
  attempts: [],
  data: [],
  meta: { current_page: 1, per_page: 25, last_page: 1, total: 0 },
  canceled: 0,
  uuids: []
}

interface Sent {
  readonly operation: string
  readonly parameters: ReadonlySet<string>
}

const patterns = operations.map(({ id, method, path: template }) => ({
  id,
  method,
  pattern: new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`),
  /** A literal path has precedence over one with a parameter. */
  parameters: template.split("{").length
})).toSorted((one, other) => one.parameters - other.parameters)

/** Records the first request of each call, by the first segment of its path. */
const record = async () => {
  const sent = new Map<string, Sent>()
  const server = await new LoopbackServer(async (request, response) => {
    request.resume()
    await once(request, "end")
    const url = new URL(request.url ?? "", "http://service.test")
    const [, key = "", rest = ""] = /^\/([^/]+)(\/.*)$/.exec(url.pathname) ?? []
    const found = patterns.find(({ method, pattern }) => method === request.method && pattern.test(rest))
    const query = [...url.searchParams.keys()].map((name) => `query ${name.replace(/\[.*/, "")}`)
    const headers = Object.keys(request.headers).map((name) => `header ${name}`)
    if (!sent.has(key)) sent.set(key, { operation: found?.id ?? "", parameters: new Set([...query, ...headers]) })
    if (rest.endsWith("/events")) {
      response.writeHead(200, { "content-type": "text/event-stream" })
      response.end(`id: 1\nevent: completed\ndata: ${JSON.stringify({ ...answer, revision: 1, occurred_at: "" })}\n\n`)
    } else answerJson(response, 200, answer)
  }).listen()
  return { sent, server }
}

const rpcParameters: ReadonlyMap<string, ReadonlyArray<string>> = new Map(
  [InternalRpc, ...extensions.flatMap(({ routes: { rpc } }) => rpc ?? [])].flatMap(({ requests }) =>
    [...requests.values()].map(({ _tag, payloadSchema: { ast } }) => {
      const fields = SchemaAST.isObjects(ast) ? ast.propertySignatures : []
      return [_tag, fields.map(({ name }) => String(name))] as const
    })
  )
)

/** The operations of a group, a tag of the document. */
export const describeParity = (
  groups: ReadonlyArray<string>,
  calls: Readonly<Record<string, Calls>>,
  exceptions: Exceptions
) => {
  const wanted = operations.filter(({ tags }) => tags.some((tag) => groups.includes(tag)))

  /** Compares what was sent with the document. */
  const check = (who: Who, sent: ReadonlyMap<string, Sent>) => {
    const missing: Array<string> = []
    const unneeded: Array<string> = []
    const judge = (name: string, isThere: boolean) => {
      const isExcepted = [name, ...groups].some((key) => exceptions[key]?.[who] !== undefined)
      if (!isThere && !isExcepted) missing.push(name)
      if (isThere && isExcepted) unneeded.push(name)
    }
    for (const { id, parameters } of wanted) {
      const found = sent.get(id)
      judge(id, found?.operation === id)
      if (found === undefined) continue
      for (const { in: place, name } of parameters) {
        if (place === "path") continue
        judge(`${id} ${name}`, found.parameters.has(`${place} ${place === "header" ? name.toLowerCase() : name}`))
      }
    }
    assert.deepStrictEqual(
      { missing, unneeded },
      { missing: [], unneeded: [] },
      `${who} and the document differ: write what is missing, and its call in this test or an exception with the reason`
    )
  }

  describe(`every call and parameter of ${groups.join(" and ")}`, () => {
    it("is in the Promise client", async () => {
      const { sent, server } = await record()
      for (const [id, { promise }] of Object.entries(calls)) {
        await promise?.(new TaskServiceClient({ baseUrl: `${server.url}/${id}`, token: "t", maxRetries: 0 }))
      }
      await server.close()
      assert.isAbove(sent.size, 0)
      check("promise", sent)
    })

    it.runIf(hasPython)("is in the Python client", async () => {
      const { sent, server } = await record()
      const lines = Object.entries(calls).flatMap(([id, { python }]) => python === undefined ? [] : [[id, python]])
      const program = [
        "import sys, types",
        "from async_task_service_client import TaskServiceClient",
        ...lines.map(([id, call]) =>
          `client = TaskServiceClient(${JSON.stringify(`${server.url}/${id}`)}, "t", max_retries=0)\n${call}`
        )
      ].join("\n")
      const client = path.resolve(import.meta.dirname, "../../src/http/client/python")
      const { output, status } = await runPython(["-c", program], { cwd: client, env: { PYTHONPATH: client } })
      await server.close()
      assert.strictEqual(status, 0, output)
      check("python", sent)
    })

    it("is in the command line", async () => {
      const { sent, server } = await record()
      const directory = temporaryDirectory()
      const file = path.join(directory, "a.txt")
      fs.writeFileSync(file, "a")
      for (const [id, { commands }] of Object.entries(calls)) {
        if (commands === undefined) continue
        const args = commands.map((word) => word === "FILE" ? file : word)
        const { code, err } = await runHere([...args, "--json", "--token", "t", "--url", `${server.url}/${id}`])
        assert.strictEqual(code, 0, `${args.join(" ")}: ${err}`)
      }
      removeDirectory(directory)
      await server.close()
      check("commands", sent)
    })

    it("is in the RPC of other services", () => {
      const sent = Object.entries(calls).flatMap(([id, { rpc = "" }]) => {
        const fields = rpcParameters.get(rpc)
        if (fields === undefined) return []
        // A header has the name of a field there.
        const parameters = fields.flatMap((name) => [`query ${name}`, `header ${name.replaceAll("_", "-")}`])
        return [[id, { operation: id, parameters: new Set(parameters) }] as const]
      })
      assert.isNotEmpty(wanted)
      check("rpc", new Map(sent))
    })
  })
}
