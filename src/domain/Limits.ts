/** Every number of SPEC's Limits table and CONTRACT 2, named once. Settings may change those that AppConfig lists. */
import { ByteSize, Duration } from "effect"

export const maxActiveTasks = 5
/** Seconds; both the default and the maximum of `max_execution_time`. */
export const maxExecutionTime = 86_400
export const acceptanceTimeout = Duration.seconds(30)

/** One wall clock over an attempt to deliver a webhook (CONTRACT 1, `WEBHOOK_TIMEOUT`). */
export const webhookTimeout = Duration.seconds(15)
/** A delivery's attempts, unless more are asked for by hand; `Webhook.schedule` has the delays between them. */
export const webhookAttempts = 5
/** Redeliveries that a user may request at once; each is available again `redeliveryInterval` later. */
export const redeliveries = 60
export const redeliveryInterval = Duration.seconds(1)
/** Attempts of one delivery after which its user may not request another. */
export const webhookAttemptsByHand = 100
/** Deliveries of one task that are listed: the newest. */
export const listedDeliveries = 1000
/** Bytes of a webhook's answer that are read; nothing is made of them. */
export const webhookAnswerBytes = 16 * 1024

/** How long ended tasks are kept (SPEC "Retention"). */
export const retention = Duration.days(30)

export const callbackUrlLength = 2048
/** Of the host in it, as DNS is asked for it (RFC 1035). */
export const hostLength = 253
export const callbackSecretLength = 255
export const cancelReasonLength = 1000

export const inputItems = 256
export const turns = 1000
export const clientTools = 128
/** Tool calls of one interrupt, and so results of one answer. */
export const toolCalls = 1000

export const perPage = { default: 25, maximum: 100 } as const

/** How long an `Idempotency-Key` is remembered (CONTRACT 2). */
export const idempotencyKeyTtl = Duration.hours(24)
export const idempotencyKeyLength = 255

/** The longest that `?wait=` may hold an answer. */
export const waitSeconds = 60

/** Bytes of a JSON request body; a longer one is 413. */
export const jsonBodyBytes = 16 * 1024 * 1024
/** Values of a JSON request body: items of arrays and members of objects, at any depth. More are 422. */
export const jsonValues = 250_000
/** Levels of nesting of a JSON request body; a deeper one is 422. */
export const jsonDepth = 64

/** Bytes of one uploaded file: SPEC's 1 024 000 KB. */
export const fileBytes = 1_024_000 * 1024

/** Bytes of one call over `/rpc`: a body of REST and what it is about. The same limit holds for a whole POST. */
export const rpcMessageBytes = jsonBodyBytes + 64 * 1024
/** Calls of one POST to `/rpc`, and calls in flight on one WebSocket. */
export const rpcCalls = 1000
/** Values of one POST to `/rpc` or of one WebSocket message: a body of REST, and what all calls are about. */
export const rpcValues = jsonValues + 20 * rpcCalls
/** Calls of one POST that run at a time, streams aside. */
export const rpcConcurrency = 32
/** Bytes of calls that a node holds at a time, over all connections to `/rpc`. */
export const rpcBytesInFlight = 128 * 1024 * 1024
/** WebSockets to `/rpc` that a node keeps open at a time. */
export const rpcSockets = 100

/** Uploads of one user that are in progress on one node. */
export const uploads = 100

/** Bytes of all files that one user may keep in the built-in storage. */
export const storageQuota = ByteSize.gibibytes(10)
/** Bytes that the built-in storage leaves free on its disk. */
export const freeDiskBytes = 512 * 1024 * 1024
