/** The use cases of webhook endpoints: operators register them, read their log, and have events sent again. */
import { Context, Duration, Effect, Layer, Option, Redacted, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import { Base64, Hex } from "effect/encoding"
import { fromText } from "../../domain/json/OpaqueJson.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { TaskId } from "../../domain/Task.ts"
import { now, plus, type Timestamp } from "../../domain/Timestamp.ts"
import { type DeliveryAttempt, type DeliveryKey, DeliveryNotFound, type DeliveryState } from "../../domain/Webhook.ts"
import { Changes } from "../signals/Changes.ts"
import { Secrets } from "../tokens/Secrets.ts"
import { WebhookTargets } from "../webhooks/WebhookSender.ts"
import * as Endpoint from "./Endpoint.ts"
import { AddressRefused, EndpointIsSent, EndpointNotFound, TooManyEndpoints, TooManyReaders } from "./EndpointErrors.ts"
import { EndpointOutbox } from "./EndpointOutbox.ts"
import { EndpointsStore, type Position, type Replay, type StreamedEvent } from "./EndpointsStore.ts"

export interface WithSecret {
  readonly endpoint: Endpoint.Endpoint
  readonly secret: Redacted.Redacted
}

/** A sample and its attempt, which is null if the endpoint is read. */
export interface Tested {
  readonly key: DeliveryKey
  readonly type: Endpoint.EventType
  readonly attempt: DeliveryAttempt | null
}

type Call<A, E = never> = Effect.Effect<A, E | StoreUnavailable>

export class Endpoints extends Context.Service<Endpoints, {
  readonly newId: Effect.Effect<string>
  readonly create: (
    id: string,
    given: Endpoint.Definition,
    isDisabled: boolean
  ) => Call<WithSecret, TooManyEndpoints | AddressRefused>
  readonly get: (id: string) => Call<Endpoint.Endpoint, EndpointNotFound>
  /** An endpoint that is enabled goes on with what is younger than 7 days. */
  readonly update: (
    id: string,
    changes: Partial<Endpoint.Definition>,
    isDisabled: boolean | undefined
  ) => Call<Endpoint.Endpoint, EndpointNotFound | AddressRefused>
  readonly remove: (id: string) => Call<void, EndpointNotFound>
  /** The old secret signs beside the new one for so many seconds. */
  readonly rotate: (id: string, keepOldFor: number) => Call<WithSecret, EndpointNotFound>
  readonly test: (id: string, type: Endpoint.EventType) => Call<Tested, EndpointNotFound>
  readonly deliveries: (
    id: string,
    state: DeliveryState | null,
    after: Position | null,
    limit: number
  ) => Call<ReadonlyArray<Endpoint.LoggedDelivery>, EndpointNotFound>
  readonly redeliver: (
    id: string,
    event: string
  ) => Call<Endpoint.LoggedDelivery, EndpointNotFound | DeliveryNotFound>
  readonly replay: (
    id: string,
    replay: Replay
  ) => Call<{ readonly enqueued: number; readonly left: number }, EndpointNotFound>
  /** The events behind a position, and those that follow, until the node drains or the endpoint is no longer read. */
  readonly events: (
    id: string,
    after: number
  ) => Call<Stream.Stream<StreamedEvent>, EndpointNotFound | EndpointIsSent | TooManyReaders>
}>()("async-task-service/services/endpoints/Endpoints") {
  static readonly layer = Layer.effect(Endpoints, Effect.suspend(() => make))
}

/** How often a stream reads what other nodes have committed, and how often at most: a reader costs as little beside many events. */
const readInterval = Duration.seconds(1)
const readPause = Duration.millis(100)

const sampleCalls = `[{"id":"call_1","name":"example","arguments":{}}]`

const makeSample = Effect.fnUntraced(function*(type: Endpoint.EventType, at: Timestamp) {
  const random = yield* SecureRandom.SecureRandom
  const uuid = TaskId.make(yield* random.uuidV7())
  const status = Endpoint.eventStatuses.find((status) => Endpoint.typeOf(status) === type) ?? "completed"
  const change: Endpoint.Change = {
    uuid,
    revision: 1,
    sub: "sample",
    status,
    error: status === "failed" ? "This is a sample." : null,
    createdAt: at,
    completedAt: status === "interrupted" ? null : at,
    pendingToolCalls: status === "interrupted" ? fromText(sampleCalls) : null,
    happenedAt: at,
    metadata: { sample: "true" },
    turn: status === "completed"
      ? fromText(`{"output":[{"type":"text","text":"This is a sample."}],"messages":[],"metadata":{}}`)
      : null
  }
  return { key: { taskId: uuid, revision: change.revision }, change }
})

const makeRegistry = Effect.gen(function*() {
  const store = yield* EndpointsStore
  const secrets = yield* Secrets
  const random = yield* SecureRandom.SecureRandom
  const targets = yield* WebhookTargets
  const outbox = yield* EndpointOutbox
  const scope = yield* Effect.scope

  const get = (id: string) =>
    Endpoint.isEndpointId(id)
      ? Effect.flatMap(
        store.get(id),
        Option.match({ onNone: () => Effect.fail(new EndpointNotFound({})), onSome: Effect.succeed })
      )
      : Effect.fail(new EndpointNotFound({}))
  const orNotFound = <A>(found: Option.Option<A>) =>
    Option.match(found, { onNone: () => Effect.fail(new EndpointNotFound({})), onSome: Effect.succeed })

  const makeSecret = Effect.gen(function*() {
    const secret = Redacted.make(`whsec_${Base64.encode(yield* random.randomBytes(32))}`)
    return { secret, sealed: yield* secrets.seal(Endpoint.secretPurpose, secret) }
  })
  const check = (url: string | null | undefined) =>
    url === null || url === undefined
      ? Effect.void
      : Effect.mapError(targets.check(url), () => new AddressRefused({}))

  return {
    get,
    newId: Effect.map(random.randomBytes(16), (bytes) => `whe_${Hex.encode(bytes)}`),
    create: Effect.fnUntraced(function*(id: string, given: Endpoint.Definition, isDisabled: boolean) {
      yield* check(given.url)
      const at = yield* now
      const { sealed, secret } = yield* makeSecret
      const endpoint: Endpoint.Endpoint = {
        ...given,
        id,
        secret: sealed,
        oldSecret: null,
        oldSecretUntil: null,
        disabledAt: isDisabled ? at : null,
        disabledReason: isDisabled ? "manual" : null,
        failingSince: null,
        succeededAt: null,
        createdAt: at,
        updatedAt: at
      }
      if (!(yield* store.insert(endpoint))) return yield* new TooManyEndpoints({})
      outbox.wake()
      return { endpoint, secret }
    }),
    update: Effect.fnUntraced(
      function*(id: string, changes: Partial<Endpoint.Definition>, isDisabled: boolean | undefined) {
        yield* get(id)
        yield* check(changes.url)
        const disabled = isDisabled === undefined ? undefined : isDisabled ? "manual" : null
        const endpoint = yield* orNotFound(yield* store.update(id, changes, disabled, yield* now))
        // Upkeep goes on with it if this process ends.
        if (disabled === null) yield* Effect.forkIn(Effect.ignore(outbox.resume), scope)
        else outbox.wake()
        return endpoint
      }
    ),
    remove: Effect.fnUntraced(function*(id: string) {
      yield* get(id)
      if (!(yield* store.remove(id))) return yield* new EndpointNotFound({})
    }),
    rotate: Effect.fnUntraced(function*(id: string, keepOldFor: number) {
      yield* get(id)
      const at = yield* now
      const { sealed, secret } = yield* makeSecret
      const oldUntil = keepOldFor === 0 ? null : plus(at, Duration.seconds(keepOldFor))
      return { endpoint: yield* orNotFound(yield* store.rotate(id, sealed, oldUntil, at)), secret }
    })
  }
})

const make = Effect.gen(function*() {
  const store = yield* EndpointsStore
  const registry = yield* makeRegistry
  const { get } = registry
  const outbox = yield* EndpointOutbox
  const { drained } = yield* Changes
  const random = yield* SecureRandom.SecureRandom
  let readers = 0

  /** Reads again when this node has committed an event, and every second for those of others. */
  const follow = (id: string, after: number) =>
    Stream.paginate({ after, isBehind: true }, ({ after, isBehind }) =>
      Effect.gen(function*() {
        for (let isFirst = isBehind;; isFirst = false) {
          if (!isFirst) yield* Effect.sleep(readPause)
          const committed = outbox.next()
          const { events, isRead } = yield* Effect.gen(function*() {
            const events = yield* store.read(id, after, yield* now)
            if (events.length > 0) return { events, isRead: true }
            return { events, isRead: Option.getOrUndefined(yield* store.get(id))?.url === null }
          }).pipe(Effect.catch((error) =>
            Effect.as(Effect.logWarning("events of an endpoint cannot be read", error), { events: [], isRead: true })
          ))
          // It was deleted, or has a URL now.
          if (!isRead) {
            return [events, Option.none()] as const
          }
          const last = events.at(-1)
          if (last !== undefined) {
            const isFull = events.length >= Endpoint.limits.readRows
            return [events, Option.some({ after: last.position, isBehind: isFull })] as const
          }
          yield* Effect.timeoutOption(committed, readInterval)
        }
      }))

  return Endpoints.of({
    ...registry,
    test: Effect.fnUntraced(function*(id, type) {
      const endpoint = yield* get(id)
      const at = yield* now
      const { change, key } = yield* Effect.provideService(makeSample(type, at), SecureRandom.SecureRandom, random)
      const body = Endpoint.bodyOf(change, endpoint.format)
      const sample = { ...key, endpointId: id, status: change.status, format: endpoint.format, body, happenedAt: at }
      const attempt = endpoint.url === null ? null : yield* outbox.send(endpoint, endpoint.url, sample)
      yield* store.addSample({ ...sample, attempt })
      if (attempt === null) outbox.wake()
      return { key, type, attempt }
    }),
    deliveries: (id, state, after, limit) => Effect.andThen(get(id), store.deliveries(id, state, after, limit)),
    redeliver: Effect.fnUntraced(function*(id, event) {
      yield* get(id)
      const key = Endpoint.parseEventId(event)
      if (key === undefined) return yield* new DeliveryNotFound({})
      const found = yield* store.redeliver({ ...key, endpointId: id }, yield* now)
      const delivery = found ? Option.getOrUndefined(yield* store.delivery({ ...key, endpointId: id })) : undefined
      if (delivery === undefined) return yield* new DeliveryNotFound({})
      outbox.wake()
      return delivery
    }),
    replay: Effect.fnUntraced(function*(id, replay) {
      yield* get(id)
      const replayed = yield* store.replay(id, replay, yield* now, Endpoint.limits.replay)
      outbox.wake()
      return replayed
    }),
    events: Effect.fnUntraced(function*(id, after) {
      const { url } = yield* get(id)
      if (url !== null) return yield* new EndpointIsSent({})
      if (readers >= Endpoint.limits.readers) return yield* new TooManyReaders({})
      const reading = Effect.acquireRelease(
        Effect.sync(() => void readers++),
        () => Effect.sync(() => void readers--)
      )
      return Stream.unwrap(Effect.as(reading, follow(id, after))).pipe(Stream.interruptWhen(drained))
    })
  })
})
