/** Every operation of both documents and every call of the internal interface, with texts that Postgres cannot store, and with empty parameters. */
import { Schema } from "effect"
import { assert, describe, it } from "vitest"
import { InternalRpc } from "../../src/http/contract/rpc/Rpc.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"
import { internalToken, mint } from "../kit/Service.ts"
import { use } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
type Node = Record<string, any>

const { service } = await use(startSystem({ OPERATOR_CONTENT: "on", TOKEN_URL: "http://127.0.0.1:9/tokens" }))
const user = await mint("odd")
const { uuid } = (await service.create(user, "x", { metadata: { a: "b" } })).body
const { body: endpoint } = await service.call("POST", "/internal/webhook-endpoints", internalToken, {
  url: "https://receiver.example/events"
})
const documents: ReadonlyArray<Node> = await Promise.all(
  ["/openapi.json", "/internal/openapi.json"].map(async (path) => (await service.call("GET", path, internalToken)).body)
)
const operations = documents.flatMap(({ paths }) =>
  Object.entries<Node>(paths).flatMap(([path, methods]) =>
    Object.entries<Node>(methods).map(([method, operation]) =>
      ({ ...operation, path, method: method.toUpperCase() }) as Node
    )
  )
)

const { body: schedule, status } = await service.call("POST", "/api/schedules", user, {
  type: "cron",
  cron: "0 9 1 1 *",
  timezone: "UTC",
  task: { assistant_id: 1, input: [{ type: "text", text: "x" }] }
})
assert.strictEqual(status, 201, JSON.stringify(schedule))

const known = (path: string): Node => ({
  uuid,
  id: path.includes("webhook-endpoints") ? endpoint.id : path.includes("schedules") ? schedule.id : uuid,
  sub: "odd"
})

const pathOf = (path: string, given: Node = {}) =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => given[name] ?? known(path)[name] ?? "x")

/** The status; the body of a stream has no end. */
const send = async ({ method, path }: Node, address: string, body?: unknown) => {
  const isInternal = path.startsWith("/internal")
  const response = await fetch(service.url + address, {
    method,
    headers: {
      authorization: `Bearer ${isInternal ? internalToken : user}`,
      ...(body === undefined ? {} : { "content-type": "application/json" })
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
  })
  await response.body?.cancel()
  return response.status
}

const texts = ["\0", "a\0b", "\ud800"]

/** Copies of a value, each with one text or one name replaced. */
const variants = (value: unknown): ReadonlyArray<unknown> => {
  if (typeof value === "string") return texts
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => variants(item).map((odd) => value.with(index, odd)))
  }
  if (typeof value !== "object" || value === null) return []
  return [
    ...Object.entries(value).flatMap(([key, member]) => variants(member).map((odd) => ({ ...value, [key]: odd }))),
    ...texts.map((text) => ({ ...value, [text]: "x" }))
  ]
}

const schemaOf = (schema: Node | undefined, { components }: Node): Node => {
  const name = schema?.["$ref"]?.split("/").at(-1)
  return name === undefined ? schema ?? {} : components.schemas[name]
}

/** The example of a body with a text for each field that the example lacks, alone since others exclude it. */
const bodiesOf = ({ requestBody }: Node, document: Node): ReadonlyArray<unknown> => {
  const json = requestBody?.content?.["application/json"]
  if (json === undefined) return []
  const example: object = json.examples.example.value
  const { anyOf = [], properties = {} } = schemaOf(json.schema, document)
  const all = [properties, ...anyOf.map((one: Node) => schemaOf(one, document)["properties"] ?? {})]
  const fields = [...new Set(all.flatMap(Object.keys))].filter((name) => !Object.hasOwn(example, name))
  return [
    ...variants(example),
    ...fields.flatMap((name) =>
      texts.flatMap((text) =>
        [text, { a: text }, { [text]: "x" }, [text]].map((value) => ({ ...example, [name]: value }))
      )
    )
  ]
}

const isOptional = (field: Schema.Top) => field.ast.context?.isOptional === true

describe("a text with NUL or half a character", () => {
  it("is 404 or 422 in each parameter of a path", async () => {
    const wrong: Array<string> = []
    for (const operation of operations) {
      for (const [, name] of operation["path"].matchAll(/\{(\w+)\}/g)) {
        for (const text of ["%00", "a%00b", "%00a", "%ED%A0%80"]) {
          const address = pathOf(operation["path"], { [name]: text })
          const status = await send(operation, address, operation["requestBody"] && {})
          if (status !== 404 && status !== 422) wrong.push(`${status} ${operation["method"]} ${address}`)
        }
      }
    }
    assert.deepStrictEqual(wrong, [])
  })

  it("is 422 in each parameter of a query", async () => {
    const wrong: Array<string> = []
    for (const operation of operations) {
      for (const { in: place, name } of operation["parameters"] ?? []) {
        if (place !== "query") continue
        for (const text of ["%00", "a%00b", "a%3D%00", "%00%3Da"]) {
          const address = `${pathOf(operation["path"])}?${name}=${text}`
          const status = await send(operation, address, operation["requestBody"] && {})
          if (status !== 422) wrong.push(`${status} ${operation["method"]} ${address}`)
        }
      }
    }
    assert.deepStrictEqual(wrong, [])
  })

  it("never fails in a body", async () => {
    for (const document of documents) {
      for (const [path, methods] of Object.entries<Node>(document["paths"])) {
        for (const [method, operation] of Object.entries<Node>(methods)) {
          for (const body of bodiesOf(operation, document)) {
            const status = await send({ method: method.toUpperCase(), path }, pathOf(path), body)
            assert.isBelow(status, 500, `${method} ${path} ${JSON.stringify(body)}`)
          }
        }
      }
    }
  })

  it("is 422 in the filter of a bulk action", async () => {
    const filters = texts.flatMap((text) => [
      { label: { a: text } },
      { label: { [text]: "x" } },
      { label: `a=${text}` },
      { label: `${text}=a` },
      { [text]: "x" },
      ...["q", "sub", "error", "fingerprint", "schedule", "from", "to"].map((name) => ({ [name]: text })),
      { ids: [text] }
    ])
    for (const filter of filters) {
      const { body, status } = await service.call("POST", "/internal/operator/bulk", internalToken, {
        action: "delete",
        filter,
        dry_run: true
      })
      assert.strictEqual(status, 422, JSON.stringify(filter))
      assert.match(Object.keys(body.errors)[0] ?? "", /^filter\b/)
    }
  })

  it("is no defect in any text of a call", async () => {
    const requests = [InternalRpc, ...extensions.flatMap(({ routes }) => routes?.rpc ?? [])].flatMap((group) => [
      ...group.requests
    ])
    assert.isAbove(requests.length, 25)
    for (const [tag, { payloadSchema }] of requests) {
      const fields: Readonly<Record<string, Schema.Codec<unknown>>> = (payloadSchema as Node)["fields"] ?? {}
      const usual = { ...known(tag.startsWith("Endpoints") ? "webhook-endpoints" : ""), uuid, delivery: "x" } as Node
      const base = Object.fromEntries(
        Object.entries(fields).flatMap(([name, field]) =>
          isOptional(field) ? [] : [[name, usual[name] ?? (Schema.is(field)({}) ? {} : "x")]]
        )
      )
      for (const [name, field] of Object.entries(fields)) {
        for (const value of texts.flatMap((text) => [text, [text], { a: text }, { [text]: "x" }])) {
          if (!Schema.is(field)(value)) continue
          const call = { _tag: "Request", id: "1", tag, payload: { ...base, [name]: value }, headers: [] }
          const { text } = await service.call("POST", "/rpc", internalToken, JSON.stringify(call), {
            "content-type": "application/ndjson"
          })
          assert.notMatch(text, /"_tag":"(Die|Defect)"/, `${tag} ${JSON.stringify(call.payload)}`)
        }
      }
    }
  })
})

describe("the id of a task in capitals", () => {
  it("is answered in its own spelling", async () => {
    const upper = String(uuid).toUpperCase()
    for (const { method, path, requestBody } of operations) {
      if (!path.includes("{uuid}") || method === "DELETE") continue
      const address = path.replace("{uuid}", upper).replace("{id}", "x")
      const response = await fetch(service.url + address, {
        method,
        headers: {
          authorization: `Bearer ${path.startsWith("/internal") ? internalToken : user}`,
          "content-type": "application/json"
        },
        ...(requestBody === undefined ? {} : { body: "{}" })
      })
      // The events of a task that may go on: its first chunks have the first event.
      let text = ""
      for await (const chunk of response.body ?? []) {
        text += Buffer.from(chunk).toString()
        if (text.includes("data:")) break
      }
      assert.notInclude(text, upper, `${method} ${address}`)
    }
    const call = { _tag: "Request", id: "1", tag: "Tasks.watch", payload: { sub: "odd", uuid: upper }, headers: [] }
    const watched = await fetch(`${service.url}/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${internalToken}`, "content-type": "application/ndjson" },
      body: `${JSON.stringify(call)}\n`
    })
    const text = await watched.text()
    assert.include(text, uuid)
    assert.notInclude(text, upper)
  })
})

describe("an empty parameter of a query", () => {
  it("is 422", async () => {
    const wrong: Array<string> = []
    for (const operation of operations) {
      for (const { in: place, name } of operation["parameters"] ?? []) {
        if (place !== "query") continue
        const address = `${pathOf(operation["path"])}?${name}=`
        const status = await send(operation, address)
        if (status !== 422) wrong.push(`${status} ${operation["method"]} ${address}`)
      }
    }
    assert.deepStrictEqual(wrong, [])
  })
})
