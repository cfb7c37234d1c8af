/** All limits of the interface that no setting changes. */
import { Duration } from "effect"

/** Seconds; both the default and the maximum of `max_execution_time`. */
export const maxExecutionTime = 86_400
/** Automatic attempts of a delivery: one more than `Webhook.delays`, and the default of `attempts_allowed` in the schema. */
export const webhookAttempts = 5
/** Maximum burst of redeliveries of a user; one more becomes available every `redeliveryInterval`. */
export const redeliveries = 60
export const redeliveryInterval = Duration.seconds(1)
/** Maximum attempts of one delivery, those requested by its user included. */
export const maxWebhookAttempts = 100
/** Maximum deliveries in the list of one task: the newest. */
export const listedDeliveries = 1000
/** Maximum bytes that are read of a webhook's response, and discarded. */
export const webhookAnswerBytes = 16 * 1024

export const callbackUrlLength = 2048
/** Characters of its host name, the limit of DNS (RFC 1035). */
export const hostLength = 253
export const callbackSecretLength = 255
export const cancelReasonLength = 1000

/** The highest limit of the runs that the core is given. */
export const coreRuns = 1_000_000
/** The highest `priority` at all, and that of users. The lowest is 0. */
export const priority = { highest: 9, ofUsers: 5 } as const

export const inputItems = 10_000
export const turns = 10_000
export const clientTools = 128
/** Maximum tool calls of one interrupt, and so results of one request. */
export const toolCalls = 10_000

/** Maximum pairs in the `metadata` of a task. */
export const metadataPairs = 16
/** Maximum pairs in the filter of one list. */
export const metadataFilters = 3
/** Characters. */
export const metadataKeyLength = 64
export const metadataValueLength = 512

/** Bytes of a `RunRequest`, as stored. A longer one is neither returned nor kept after the end. Another number needs a migration: `commit_tasks` contains it. */
export const keptRequestBytes = 256 * 1024

/** Characters of `q`, the text that a list searches. */
export const searchLength = 200

export const perPage = { default: 25, maximum: 100 } as const

/** An `Idempotency-Key` expires after this time. */
export const idempotencyKeyTtl = Duration.hours(24)
export const idempotencyKeyLength = 255

/** Maximum of `?wait=`. */
export const waitSeconds = 60
/** The longest time that a response is held without a byte: common proxies end a request after 60 s of silence. */
export const heldSeconds = 55
/** After this time a response that has begun says that it is alive, for the same reason. */
export const keepAliveInterval = Duration.seconds(15)

/** Characters of the text in a progress event; a longer one is cut. */
export const eventTextLength = 64 * 1024
/** Bytes of a turn's JSON; progress events carry no text of a longer one. */
export const eventTurnBytes = 256 * 1024

/** Bytes of text that one event of the core may append. */
export const appendBytes = 64 * 1024
/** Appends of one event, and events of one request. */
export const appends = 10_000
export const batchedEvents = 10_000
/** Bytes of a request with several events. */
export const batchedEventBytes = 1024 * 1024
/** Events of a batch that are taken in one turn of the event loop: a few milliseconds. */
export const eventsPerTurn = 500
/** UTF-16 units by which a reader of a text may be behind it. */
export const unreadText = 1024 * 1024
/** Between two texts of one reader: 20 a second. */
export const textInterval = Duration.millis(50)

/** Tokens of one kind that a core may report of a task; with more, the turn counts as unmetered. */
export const usageTokens = 1_000_000_000_000
/** Characters of the name of a model, by which usage is grouped; a longer name counts as none. */
export const modelLength = 200

/**
 * Bytes of a small text; characters where its bytes are not known. A longer one counts in a budget of `services/limits/Memory`, has a statement
 * of its own, and is kept as UTF-8.
 */
export const smallText = 64 * 1024
/** Bytes of a JSON request body; a longer one is 413. */
export const jsonBodyBytes = 16 * 1024 * 1024
/** Bytes of an event of the core; a longer one is 413, and ends its task if it is the last one of a run. */
export const coreEventBytes = 32 * 1024 * 1024
/** Bytes that a receiver of webhooks has to take: a turn, which came in an event, with what surrounds it. */
export const webhookBytes = coreEventBytes + 1024 * 1024
/** Levels of nesting of a JSON request body; a deeper one is 422. */
export const jsonDepth = 1000
/** Levels that are scanned, for what follows in a body that is too deep: it may say whose event it is. */
export const scannedDepth = 100_000

/** Bytes of one uploaded file: 1 024 000 KB. */
export const fileBytes = 1_024_000 * 1024

/** Bytes of one RPC call that may be accepted: an event of the core and the other parameters. */
export const rpcCallBytes = coreEventBytes + 64 * 1024
/**
 * Bytes of one RPC message: an event of the core that is too large must say whose it is. The same limit applies to a whole POST that
 * announces its length; another one has the limit of a call.
 */
export const rpcMessageBytes = 2 * coreEventBytes + 64 * 1024
/** Maximum calls in one POST to `/rpc`, and calls in flight on one WebSocket. */
export const rpcCalls = 1000
/** Calls of one POST that run concurrently, not counting streams. */
export const rpcConcurrency = 32
/**
 * Bytes of calls that a node holds in memory, over all connections to `/rpc`. A POST counts from its beginning, a message of a WebSocket when
 * it has arrived.
 */
export const rpcBytesInFlight = 128 * 1024 * 1024
/** Maximum open WebSockets to `/rpc` per node. */
export const rpcSockets = 100

/** Maximum concurrent uploads of one user per node. */
export const uploads = 100

/** Bytes of disk that the built-in storage leaves free. */
export const freeDiskBytes = 512 * 1024 * 1024
