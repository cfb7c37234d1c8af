/** One call of the internal interface, as `curl` makes it. Returns the value, or the `_tag` of the failure. */
import { internalToken, type Service } from "./Service.ts"

export const callRpc = async (service: Service, tag: string, payload: unknown) => {
  const call = JSON.stringify({ _tag: "Request", id: "1", tag, payload, headers: [] })
  const { body } = await service.call("POST", "/rpc", internalToken, call, { "content-type": "application/ndjson" })
  return body.exit._tag === "Success" ? body.exit.value : body.exit.cause[0].error._tag
}
