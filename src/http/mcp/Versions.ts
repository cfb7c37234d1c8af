/** The two eras of the protocol, both without sessions: revisions with a handshake, and those that name their version in every request. */
import { Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { headerMismatch, invalidParams, unsupportedVersion } from "./Errors.ts"
import { headerText, type Message, metaKey } from "./Message.ts"

/** The latest revision with a handshake. */
const latestHandshake = "2025-11-25"
const withHandshake: ReadonlyArray<string> = ["2025-03-26", "2025-06-18", latestHandshake]

/** The revision without a handshake. */
const current = "2026-07-28"

export const supported = [...withHandshake, current]

/** The version with which `initialize` is answered. */
export const negotiated = (offered: string | undefined) =>
  offered !== undefined && withHandshake.includes(offered) ? offered : latestHandshake

/** Methods whose `params.name` or `params.taskId` the header `Mcp-Name` repeats. */
const named: ReadonlySet<string> = new Set(["tools/call", "tasks/get", "tasks/update", "tasks/cancel"])

/** True if a request is of the era without a handshake. Fails when its headers and its body do not fit together. */
export const isCurrent = Effect.fnUntraced(function*(
  { hasCapabilities, method, name, version }: Message,
  headers: HttpServerRequest.HttpServerRequest["headers"]
) {
  const announced = headers["mcp-protocol-version"]
  if (version === undefined || withHandshake.includes(version)) {
    if (announced === current) return yield* invalidParams(`_meta must have ${metaKey("protocolVersion")}.`)
    if (announced !== undefined && !withHandshake.includes(announced)) {
      return yield* unsupportedVersion(announced, supported)
    }
    return false
  }
  if (announced !== version) return yield* headerMismatch("MCP-Protocol-Version")
  if (headerText(headers["mcp-method"]) !== method) return yield* headerMismatch("Mcp-Method")
  if (named.has(method) && headerText(headers["mcp-name"]) !== name) return yield* headerMismatch("Mcp-Name")
  if (version !== current) return yield* unsupportedVersion(version, supported)
  if (!hasCapabilities) return yield* invalidParams(`_meta must have ${metaKey("clientCapabilities")}.`)
  return true
})
