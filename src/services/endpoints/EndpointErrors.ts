/** Reasons why a request about an endpoint fails. REST and RPC map them to their own errors. */
import { Schema } from "effect"
import { limits } from "./Endpoint.ts"

export class EndpointNotFound extends Schema.TaggedError<EndpointNotFound>()("EndpointNotFound", {}) {
  override get message() {
    return "There is no such webhook endpoint."
  }
}

export class TooManyEndpoints extends Schema.TaggedError<TooManyEndpoints>()("TooManyEndpoints", {}) {
  override get message() {
    return `Too many webhook endpoints. The maximum is ${limits.endpoints}: delete one that is not needed.`
  }
}

export class TooManyReaders extends Schema.TaggedError<TooManyReaders>()("TooManyReaders", {}) {
  override get message() {
    return `Too many event streams on this node. The maximum is ${limits.readers}.`
  }
}

/** The endpoint has a URL, so its events are sent and not read. */
export class EndpointIsSent extends Schema.TaggedError<EndpointIsSent>()("EndpointIsSent", {}) {
  override get message() {
    return "The endpoint has a URL: its events are sent there. Only those of an endpoint whose url is null can be read."
  }
}

/** `WEBHOOK_ALLOW_PRIVATE` does not allow the address. */
export class AddressRefused extends Schema.TaggedError<AddressRefused>()("AddressRefused", {}) {
  override get message() {
    return "Webhooks may not go to this host: it has a private or special address. An operator can allow it by WEBHOOK_ALLOW_PRIVATE"
  }
}
