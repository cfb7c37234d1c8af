/**
 * Verifies webhooks in the application that receives them. Requires only WebCrypto. Pass the raw body: parsing and
 * serializing it again changes the signed bytes.
 */
import { bodyKey, standardContent, standardKey } from "../../domain/WebhookSignature.ts"

/** The reason why a webhook was rejected. */
export type WebhookProblem =
  | "missing_signature"
  | "wrong_signature"
  | "missing_timestamp"
  | "too_old"
  | "too_new"
  | "malformed_body"

const messages: Readonly<Record<WebhookProblem, string>> = {
  missing_signature: "The webhook has no valid signature header.",
  wrong_signature: "The signature does not match the body and the secret.",
  missing_timestamp: "The webhook has no id or timestamp header.",
  too_old: "The webhook's timestamp is too old.",
  too_new: "The webhook's timestamp is in the future.",
  malformed_body: "The body is not a task."
}

/** The webhook cannot be trusted: respond with 401 and ignore it. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError"
  readonly problem: WebhookProblem
  constructor(problem: WebhookProblem) {
    super(messages[problem])
    this.problem = problem
  }
}

/** A web `Headers`, or the headers object of Node, Express and the like. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | ReadonlyArray<string> | undefined }

export interface ReceivedWebhook {
  /** The raw body, as bytes or text. Never parsed JSON. */
  readonly body: Uint8Array | ArrayBuffer | string
  readonly headers: WebhookHeaders
  /** The `callback_secret` of the task, or the secret of the webhook endpoint. Pass several during a rotation: one of them must match. */
  readonly secret: string | ReadonlyArray<string>
  /** Maximum difference in seconds between the timestamp and `now`. Default: 300. */
  readonly tolerance?: number
  /** The current time in seconds since 1970. Default: the system clock. */
  readonly now?: number
}

export interface VerifiedWebhook {
  /** Identifies the delivery and is the same on each attempt: ignore ids that were processed before. */
  readonly id: string
  /** The kind of event, such as `task.completed`. */
  readonly type: string
  readonly taskId: string
  /** The task, as `GET /api/tasks/{uuid}` returned it at the time of the event, or as the format of a webhook endpoint has it. */
  readonly task: { readonly uuid: string; readonly status: string; readonly [field: string]: unknown }
}

const parsedBody =
  "verifyWebhook needs the raw bytes that were signed, and the body is missing or parsed already: pass the raw body. Express: "
  + "express.raw({ type: \"application/json\", limit: \"33mb\" }). Fastify: fastify({ bodyLimit: 33 * 1024 * 1024 }) and "
  + "addContentTypeParser with parseAs: \"buffer\". Hono: await context.req.arrayBuffer(). Next.js: await request.arrayBuffer()."

/** Also of another realm, as in test runners. */
const isBytes = (body: unknown) =>
  ArrayBuffer.isView(body) || Object.prototype.toString.call(body) === "[object ArrayBuffer]"

const bytesOf = (body: ReceivedWebhook["body"]): Uint8Array<ArrayBuffer> => {
  if (typeof body === "string") return new TextEncoder().encode(body)
  if (!isBytes(body)) throw new TypeError(parsedBody)
  return new Uint8Array(body)
}

const isWebHeaders = (headers: WebhookHeaders): headers is { readonly get: (name: string) => string | null } =>
  typeof headers["get"] === "function"

const headerOf = (headers: WebhookHeaders, name: string): string => {
  const found = isWebHeaders(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return (Array.isArray(found) ? found[0] : found) ?? ""
}

const fromHex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0))

/** True if the HMAC matches. WebCrypto compares in constant time. */
const matches = (key: Uint8Array<ArrayBuffer>, tag: Uint8Array<ArrayBuffer>, content: Uint8Array<ArrayBuffer>) =>
  crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"])
    .then((imported) => crypto.subtle.verify("HMAC", imported, tag, content))

const fail = (problem: WebhookProblem): never => {
  throw new WebhookVerificationError(problem)
}

/** The signatures in `webhook-signature`, a space-separated list of `v1,<base64>`. */
const standardTags = (signature: string) =>
  signature.split(" ").flatMap((entry) => {
    const [, tag] = /^v1,([A-Za-z0-9+/]{43}=)$/.exec(entry) ?? []
    return tag === undefined ? [] : [fromBase64(tag)]
  })

const isTask = (value: unknown): value is VerifiedWebhook["task"] =>
  typeof value === "object" && value !== null && "uuid" in value && "status" in value

const isObject = (value: unknown): value is { readonly [field: string]: unknown } =>
  typeof value === "object" && value !== null

/** The task in the event of a webhook endpoint: its body has the id of the event, but in a CloudEvent, whose headers nothing signs. */
const taskOfEvent = (body: unknown, id: string): unknown => {
  if (!isObject(body)) return undefined
  return body["id"] === id && isObject(body["data"]) ? body["data"]["task"] : body["task"]
}

const parse = (bytes: Uint8Array): unknown => {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
  } catch {
    return undefined
  }
}

/**
 * Verifies a webhook of a task, which has both signatures, and of a webhook endpoint, which has that of Standard Webhooks. Checks the signatures and the timestamp; rejects with a `WebhookVerificationError`, or a `TypeError` for a parsed body. For a task, `X-Signature` alone is not enough,
 * because only `webhook-signature` covers the timestamp.
 */
export const verifyWebhook = (received: ReceivedWebhook): Promise<VerifiedWebhook> => {
  const { headers, now = Date.now() / 1000, secret, tolerance = 300 } = received
  return Promise.resolve().then(() => {
    const body = bytesOf(received.body)
    const id = headerOf(headers, "webhook-id")
    const second = headerOf(headers, "webhook-timestamp")
    const hex = headerOf(headers, "x-signature")
    const tags = standardTags(headerOf(headers, "webhook-signature"))
    const isEvent = hex === ""
    if (tags.length === 0 || !(isEvent || /^[0-9a-f]{64}$/.test(hex))) return fail("missing_signature")
    if (id === "" || !/^\d{1,12}$/.test(second)) return fail("missing_timestamp")
    const secrets = typeof secret === "string" ? [secret] : secret
    const content = standardContent(id, second, body)
    const checks = secrets.map((candidate) =>
      Promise.all([
        isEvent || matches(bodyKey(candidate), fromHex(hex), body),
        Promise.all(tags.map((tag) => matches(standardKey(candidate), tag, content)))
      ]).then(([byBody, byContent]) => byBody && byContent.includes(true))
    )
    return Promise.all(checks).then((outcomes) => {
      if (!outcomes.includes(true)) return fail("wrong_signature")
      if (Number(second) < now - tolerance) return fail("too_old")
      if (Number(second) > now + tolerance) return fail("too_new")
      const found = parse(body)
      // A task that comes without `X-Signature` has lost it.
      if (isEvent && isTask(found)) return fail("missing_signature")
      const task = isEvent ? taskOfEvent(found, id) : found
      if (!isTask(task)) return fail("malformed_body")
      return { id, type: `task.${task.status}`, taskId: task.uuid, task }
    })
  })
}
