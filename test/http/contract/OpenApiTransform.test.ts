import { HttpApi, OpenApi } from "effect/http-api"
import { assert, describe, it } from "vitest"
import { InternalApi, PublicApi } from "../../../src/http/contract/Api.ts"
import { finish } from "../../../src/http/contract/OpenApiTransform.ts"
import { extensions } from "../../../src/runtime/loadedExtensions.ts"
import { prometheusName } from "../../../src/services/telemetry/Metrics.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- a document of any shape
type Node = Record<string, any>

const documents: Readonly<Record<string, Node>> = {
  public: OpenApi.fromApi(PublicApi),
  internal: OpenApi.fromApi(InternalApi),
  ...Object.fromEntries(
    extensions.flatMap(({ routes: { documented } }) => documented ?? []).map(({ group, securitySchemes }) => [
      group.identifier,
      OpenApi.fromApi(
        HttpApi.make("extension").add(group).annotate(OpenApi.Transform, finish({}, securitySchemes))
      )
    ])
  )
}

const operationsOf = (document: Node) =>
  Object.entries<Node>(document["paths"]).flatMap(([path, methods]) =>
    Object.values<Node>(methods).map((operation) => ({ path, operation, id: String(operation["operationId"]) }))
  )

const all = Object.values(documents).flatMap(operationsOf)

/** A name as code generators write it: without case and punctuation. */
const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, "")

const duplicates = (names: ReadonlyArray<string>) => names.filter((name, index) => names.indexOf(name) !== index)

/** Visits every object of the document, except examples, with `onNode`. */
const visit = (node: unknown, at: string, onNode: (node: Node, at: string) => void): void => {
  if (typeof node !== "object" || node === null) return
  if (!Array.isArray(node)) onNode(node, at)
  for (const [key, inner] of Object.entries(node)) if (key !== "examples") visit(inner, `${at}/${key}`, onNode)
}

/** Operations of the smallest documents, less one. */
const fewer: Readonly<Record<string, number>> = { operatorUsage: 1, operatorSchedules: 0 }

describe.each(Object.entries(documents))("the %s document", (audience, document) => {
  const operations = operationsOf(document)

  it("has the operations of its audience only", () => {
    for (const { path } of operations) assert.strictEqual(path.startsWith("/internal/"), audience !== "public", path)
    assert.isAbove(operations.length, fewer[audience] ?? 2)
  })

  it("names operations, parameters and schemas so that generated names are distinct", () => {
    for (const { id, operation } of operations) {
      assert.match(id, /^[a-z]+([A-Z][a-z]+)+$/)
      const parameters: ReadonlyArray<Node> = operation["parameters"]
      assert.deepStrictEqual(duplicates(parameters.map(({ name }) => plain(name))), [], id)
    }
    assert.deepStrictEqual(duplicates(operations.map(({ id }) => plain(id))), [])
    const schemas = Object.keys(document["components"]["schemas"])
    assert.deepStrictEqual(duplicates(schemas.map(plain)), [])
    for (const name of schemas) assert.match(name, /^[A-Z][A-Za-z]+$/)
  })

  it("lets objects without known properties have any", () => {
    visit(document["components"]["schemas"], "", (node, at) => {
      if (node["type"] === "object" && node["properties"] === undefined) {
        assert.isDefined(node["additionalProperties"], at)
      }
    })
  })

  it("documents the errors of every operation with a JSON body and an example", () => {
    const resolve = (node: Node): Node => {
      const ref: string | undefined = node["$ref"]
      return ref === undefined ? node : ref.slice(2).split("/").reduce((inner, key) => inner[key], document)
    }
    for (const { id, operation, path } of operations) {
      const expected = ["400", "401", "408", "431", "500", ...audience === "public" ? ["503"] : []]
      if (operation["requestBody"] !== undefined) expected.push("415", "422")
      if (operation["requestBody"]?.content["application/json"] !== undefined) expected.push("413")
      if (operation["parameters"].some((parameter: Node) => parameter["in"] === "query")) expected.push("422")
      // An assistant that is not known is created.
      if (path.includes("{")) expected.push("403", ...id === "changeQueuedAssistant" ? [] : ["404"])
      assert.includeMembers(Object.keys(operation["responses"]), expected, id)
      for (const [status, response] of Object.entries<Node>(operation["responses"])) {
        if (Number(status) < 400) continue
        const content = resolve(response)["content"]?.["application/json"]
        assert.isString(content?.examples.example.value.message, `${id} ${status}`)
        const { properties, required } = resolve(content.schema)
        assert.strictEqual(properties.message.type, "string", `${id} ${status}`)
        assert.include(required, "message")
      }
    }
  })

  it("describes every field, parameter and header, and allows additional properties", () => {
    const undescribed: Array<string> = []
    visit(document, "", (node, path) => {
      assert.notStrictEqual(node["additionalProperties"], false, path)
      if (path.endsWith("/properties") || path.endsWith("/headers")) {
        for (const [name, field] of Object.entries<Node>(node)) {
          if (field["description"] === undefined && field["$ref"] === undefined) undescribed.push(`${path}/${name}`)
        }
      }
      if (typeof node["in"] === "string" && node["description"] === undefined) {
        undescribed.push(`${path} ${node["name"]}`)
      }
    })
    for (const [name, schema] of Object.entries<Node>(document["components"]["schemas"])) {
      if (schema["description"] === undefined && schema["properties"]?.["message"] === undefined) undescribed.push(name)
    }
    assert.deepStrictEqual(undescribed, [])
  })

  it("has a summary and examples of request and responses for every operation", () => {
    for (const { id, operation } of operations) {
      assert.isString(operation["summary"], id)
      const json = operation["requestBody"]?.["content"]?.["application/json"]
      if (json !== undefined) assert.isDefined(json["examples"].example.value, id)
      for (const [status, response] of Object.entries<Node>(operation["responses"])) {
        if (response["$ref"] !== undefined) continue
        assert.isDefined(response["headers"]["X-Request-Id"], `${id} ${status}`)
        for (const content of Object.values<Node>(response["content"] ?? {})) {
          assert.isDefined(content["examples"].example.value, `${id} ${status}`)
        }
      }
    }
  })

  it("has no component without a use", () => {
    const text = JSON.stringify(document)
    for (const kind of ["schemas", "responses", "headers"]) {
      for (const name of Object.keys(document["components"][kind])) {
        assert.include(text, `"#/components/${kind}/${name}"`)
      }
    }
  })
})

describe("the OpenAPI documents", () => {
  it("describe each success response by what it means for its operation", () => {
    const descriptions = all.flatMap(({ operation }) =>
      Object.entries<Node>(operation["responses"]).filter(([status]) => status.startsWith("2")).map(([, response]) =>
        response["description"]
      )
    )
    for (const description of descriptions) assert.match(description, /^[A-Z].{20,}\.$/s)
    assert.strictEqual(new Set(descriptions).size, descriptions.length)
  })

  it("describe an item of output as a union that ends with items of unknown types", () => {
    const { OutputItem, UnknownOutput } = documents["public"]!["components"]["schemas"]
    assert.deepStrictEqual(
      OutputItem.anyOf.map((member: Node) => member["$ref"].split("/").at(-1)),
      ["TextOutput", "ImageOutput", "FileOutput", "UnknownOutput"]
    )
    assert.deepStrictEqual(UnknownOutput.required, ["type"])
    assert.isTrue(UnknownOutput.additionalProperties)
  })

  it("have an example for every path parameter", () => {
    const inPath: Array<Node> = []
    visit(documents["public"]!["paths"], "", (node) => node["in"] === "path" && inPath.push(node))
    assert.isAbove(inPath.length, 5)
    for (const { example, name } of inPath) assert.isString(example, name)
  })

  it("discriminate input items and core events by type", () => {
    const { InputItem } = documents["public"]!["components"]["schemas"]
    const { CoreEvent } = documents["internal"]!["components"]["schemas"]
    assert.deepStrictEqual(Object.keys(InputItem.discriminator.mapping), ["text", "file", "voice"])
    assert.strictEqual(InputItem.oneOf.length, 3)
    assert.strictEqual(CoreEvent.oneOf.length, 5)
  })

  it("have a current metric in the example of the metrics", () => {
    const metrics = all.find(({ id }) => id === "getMetrics")
    assert.include(JSON.stringify(metrics), prometheusName("task.active"))
  })
})
