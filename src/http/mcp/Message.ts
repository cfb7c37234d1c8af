/** One message of a client. Nothing of it refers to the request's body, except the arguments of a tool. */
import { Option } from "effect"
import { Base64 } from "effect/encoding"
import type { RawJson } from "../../domain/json/RawJson.ts"
import { captured, type Found, object, raw, small } from "../../domain/json/Shape.ts"
import { Kind } from "../../domain/json/tables.ts"
import { type Id, idIn, isPresent, rawIn, wrongId } from "../facades/JsonRpc.ts"

export interface Message {
  /** Undefined for a notification, which is not answered. */
  readonly id: Id | undefined
  readonly method: string
  /** The version in `_meta`, which the clients of older revisions do not send. */
  readonly version: string | undefined
  /** The version that `initialize` offers. */
  readonly offered: string | undefined
  readonly hasCapabilities: boolean
  /** Capabilities of the client: the Tasks extension, and forms that a person fills in. */
  readonly hasTasks: boolean
  readonly hasForms: boolean
  /** The name of a tool, or the id of a task. */
  readonly name: string | undefined
  /** The arguments of a tool; undefined without any. */
  readonly arguments: RawJson | undefined
  /** Answers to the questions of a task. */
  readonly inputResponses: RawJson | undefined
  readonly progressToken: Id | undefined
}

export const metaKey = (name: string) => `io.modelcontextprotocol/${name}`

export const tasksExtension = metaKey("tasks")

export const shape = object({
  jsonrpc: captured,
  id: small,
  method: captured,
  result: small,
  error: small,
  params: object({
    name: captured,
    taskId: captured,
    protocolVersion: captured,
    arguments: raw,
    inputResponses: raw,
    _meta: object({
      progressToken: small,
      [metaKey("protocolVersion")]: captured,
      [metaKey("clientCapabilities")]: object({
        elicitation: object({ form: small, url: small }),
        extensions: object({ [tasksExtension]: small })
      })
    })
  })
})

/** The reason why a body is no message. */
export interface Problem {
  readonly problem: string
}

/** Reads a body that is valid JSON. */
export const read = (root: Found, bytes: Uint8Array): Message | Problem => {
  if (root.kind === Kind.array) return { problem: "Send one message at a time: batches are not supported." }
  const given = root.field("id")
  if (root.kind !== Kind.object || root.field("jsonrpc")?.text !== "2.0") {
    return { problem: "Expected a message of JSON-RPC 2.0." }
  }
  const id = idIn(given, bytes)
  const [result, error] = [root.field("result"), root.field("error")]
  const isResponse = root.field("method") === undefined &&
    (error === undefined ? result !== undefined : result === undefined)
  // Only the error of a message that could not be read has no id.
  if (given !== undefined && id === undefined && !(isResponse && error !== undefined && !isPresent(given))) {
    return { problem: wrongId }
  }
  const method = isResponse ? "" : root.field("method")?.text
  if (method === undefined) return { problem: "Expected a request or a notification with a method, which is a text." }
  if (isResponse && result !== undefined && id === undefined) return { problem: "The id of a response is missing." }
  const params = root.field("params")
  const meta = params?.field("_meta")
  const capabilities = meta?.field(metaKey("clientCapabilities"))
  const elicitation = capabilities?.field("elicitation")
  const hasModes = isPresent(elicitation?.field("form")) || isPresent(elicitation?.field("url"))
  return {
    // We send no requests that a response could answer.
    id: isResponse ? undefined : id,
    method,
    version: meta?.field(metaKey("protocolVersion"))?.text,
    offered: params?.field("protocolVersion")?.text,
    hasCapabilities: capabilities?.kind === Kind.object,
    hasTasks: capabilities?.field("extensions")?.field(tasksExtension)?.kind === Kind.object,
    hasForms: elicitation?.kind === Kind.object && (!hasModes || isPresent(elicitation.field("form"))),
    name: params?.field("name")?.text ?? params?.field("taskId")?.text,
    arguments: rawIn(params?.field("arguments"), bytes),
    inputResponses: rawIn(params?.field("inputResponses"), bytes),
    progressToken: idIn(meta?.field("progressToken"), bytes)
  }
}

/** True if an `Accept` header allows a media type. The most specific range decides; without the header all are allowed. */
export const accepts = (accept: string | undefined, type: string): boolean => {
  if (accept === undefined || accept.trim() === "") return true
  const qualities = new Map(
    accept.toLowerCase().split(",").map((item) => {
      const [range = "", ...parameters] = item.split(";").map((part) => part.trim())
      return [range, parameters.find((parameter) => parameter.startsWith("q="))] as const
    })
  )
  const range = [type, type.replace(/\/.*/, "/*"), "*/*"].find((candidate) => qualities.has(candidate))
  return range !== undefined && Number(qualities.get(range)?.slice(2) ?? 1) !== 0
}

export const acceptsOnlyEvents = (accept: string | undefined): boolean =>
  accepts(accept, "text/event-stream") && !accepts(accept, "application/json")

/** The value of a header, which may be `=?base64?…?=`. */
export const headerText = (value: string | undefined): string | undefined => {
  const [, encoded] = /^=\?base64\?(.*)\?=$/.exec(value ?? "") ?? []
  return encoded === undefined ? value : Option.getOrUndefined(Option.getSuccess(Base64.decodeString(encoded)))
}
