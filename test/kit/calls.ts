/** The calls of the internal interface, with REST's operations that have the same rules. */
import { Context, type Schema, SchemaAST } from "effect"
import { HttpApi, OpenApi } from "effect/http-api"
import { Api } from "../../src/http/contract/Api.ts"
import { InternalRpc } from "../../src/http/contract/rpc/Rpc.ts"
import { type Operation, operations } from "./operations.ts"

const rest = new Map<string, Operation | undefined>()
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { annotations, identifier }, group }) => {
    const id = Context.getOrUndefined(annotations, OpenApi.Identifier)
    const tag = `${group.identifier.replace(/^./, (first) => first.toUpperCase())}.${identifier}`
    rest.set(tag, operations.find((operation) => operation.id === id))
  }
})

const requiredFieldsOf = ({ ast }: Schema.Top) =>
  SchemaAST.isObjects(ast)
    ? ast.propertySignatures.filter(({ type }) => !SchemaAST.isOptional(type)).map(({ name }) => name)
    : []

export const calls = [...InternalRpc.requests].map(([tag, { payloadSchema }]) => {
  const operation = rest.get(tag)
  return {
    tag,
    operation,
    /** The required fields: besides the user and the task there is only REST's body. */
    payloadFor: ({ sub, uuid }: { readonly sub: string; readonly uuid: string }) =>
      Object.fromEntries(
        requiredFieldsOf(payloadSchema).map((name) => [
          name,
          name === "sub" ? sub : name === "uuid" ? uuid : operation?.body
        ])
      )
  }
})
