/** Calls of the operator interface with a bearer token. */
import { internalToken, type Service } from "../../kit/Service.ts"

export const operatorCalls = (service: Service) => ({
  get: (path: string, token = internalToken) => service.call("GET", `/internal/operator${path}`, token),
  post: (path: string, body?: unknown, token = internalToken) =>
    service.call("POST", `/internal/operator${path}`, token, body)
})
