/**
 * For receivers of webhooks: is it ours, and what does it say? Runs wherever WebCrypto does, and needs nothing else. Give it
 * the body as it came, before anything has parsed it.
 */
import { bodyKey, standardContent, standardKey } from "../../domain/WebhookSignature.ts"

/** Why a webhook is not to be trusted. */
export type WebhookProblem =
  | "missing_signature"
  | "wrong_signature"
  | "missing_timestamp"
  | "too_old"
  | "too_new"
  | "malformed_body"

const explanations: Readonly<Record<WebhookProblem, string>> = {
  missing_signature: "The webhook carries no signature.",
  wrong_signature: "The signature does not fit the body and the secret.",
  missing_timestamp: "The webhook does not say when it was sent.",
  too_old: "The webhook was sent too long ago.",
  too_new: "The webhook was sent in the future.",
  malformed_body: "The body is not a task."
}

/** Answer such a webhook with 401, and do nothing else. */
export class WebhookVerificationError extends Error {
  override readonly name = "WebhookVerificationError"
  readonly problem: WebhookProblem
  constructor(problem: WebhookProblem) {
    super(explanations[problem])
    this.problem = problem
  }
}

/** A web `Headers`, or the headers object of Node, Express and the like. */
export type WebhookHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | ReadonlyArray<string> | undefined }

export interface ReceivedWebhook {
  /** The raw bytes, or their text, never parsed JSON. */
  readonly body: Uint8Array | ArrayBuffer | string
  readonly headers: WebhookHeaders
  /** The `callback_secret` of the task; several while it is being changed. */
  readonly secret: string | ReadonlyArray<string>
  /** Seconds that the moment of sending may lie off: 300 unless given. */
  readonly tolerance?: number
  /** Seconds since 1970, instead of the clock's. */
  readonly now?: number
}

export interface VerifiedWebhook {
  /** The same in every attempt: one that was seen before needs no second look. */
  readonly id: string
  readonly taskId: string
  /** The task, as `GET /api/tasks/{uuid}` answered when it changed. */
  readonly task: { readonly uuid: string; readonly status: string; readonly [field: string]: unknown }
}

const bytesOf = (body: ReceivedWebhook["body"]): Uint8Array<ArrayBuffer> =>
  typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body)

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

/** WebCrypto compares in constant time. */
const fits = (key: Uint8Array<ArrayBuffer>, tag: Uint8Array<ArrayBuffer>, content: Uint8Array<ArrayBuffer>) =>
  crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"])
    .then((imported) => crypto.subtle.verify("HMAC", imported, tag, content))

const fail = (problem: WebhookProblem): never => {
  throw new WebhookVerificationError(problem)
}

/** The tags of `webhook-signature`: a list of `v1,<base64>`. */
const standardTags = (signature: string) =>
  signature.split(" ").flatMap((entry) => {
    const [, tag] = /^v1,([A-Za-z0-9+/]{43}=)$/.exec(entry) ?? []
    return tag === undefined ? [] : [fromBase64(tag)]
  })

const parse = (bytes: Uint8Array): VerifiedWebhook["task"] => {
  try {
    const task: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes))
    if (typeof task === "object" && task !== null && "uuid" in task && "status" in task) {
      return task as VerifiedWebhook["task"]
    }
  } catch {
    return fail("malformed_body")
  }
  return fail("malformed_body")
}

/**
 * Checks both signatures, and when it was sent; the promise is rejected with a `WebhookVerificationError` otherwise. The
 * time is signed by `webhook-signature` only, which is why `X-Signature` alone is not enough here.
 */
export const verifyWebhook = (received: ReceivedWebhook): Promise<VerifiedWebhook> => {
  const { headers, now = Date.now() / 1000, secret, tolerance = 300 } = received
  return Promise.resolve().then(() => {
    const body = bytesOf(received.body)
    const id = headerOf(headers, "webhook-id")
    const second = headerOf(headers, "webhook-timestamp")
    const hex = headerOf(headers, "x-signature")
    const tags = standardTags(headerOf(headers, "webhook-signature"))
    if (!/^[0-9a-f]{64}$/.test(hex) || tags.length === 0) return fail("missing_signature")
    if (id === "" || !/^\d{1,12}$/.test(second)) return fail("missing_timestamp")
    const secrets = typeof secret === "string" ? [secret] : secret
    const content = standardContent(id, second, body)
    const checks = secrets.map((candidate) =>
      Promise.all([
        fits(bodyKey(candidate), fromHex(hex), body),
        Promise.all(tags.map((tag) => fits(standardKey(candidate), tag, content)))
      ]).then(([byBody, byContent]) => byBody && byContent.includes(true))
    )
    return Promise.all(checks).then((outcomes) => {
      if (!outcomes.includes(true)) return fail("wrong_signature")
      if (Number(second) < now - tolerance) return fail("too_old")
      if (Number(second) > now + tolerance) return fail("too_new")
      const task = parse(body)
      return { id, taskId: task.uuid, task }
    })
  })
}
