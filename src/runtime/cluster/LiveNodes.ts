/**
 * The live texts of other nodes, by HTTP to their internal interface (`http/handlers/Live`). The cluster says which nodes there are,
 * each says which shards it has. One connection carries all texts that this node follows at another one; a node that says nothing for a
 * while cannot be reached.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Clock, Duration, Effect, Latch, Layer, type Redacted, Schema, Semaphore } from "effect"
import { SecureRandom } from "effect/crypto"
import { encode, OpaqueJson, textOf, toValue } from "../../domain/json/OpaqueJson.ts"
import type { TaskId } from "../../domain/Task.ts"
import * as TaskShard from "../../domain/TaskShard.ts"
import { monotonicMillisOf } from "../../domain/Timestamp.ts"
import { Line, Shards, Takens } from "../../http/contract/LiveProtocol.ts"
import { TaskOwnership } from "../../services/cluster/TaskOwnership.ts"
import { type Change, type Handed, Peers, type Taken } from "../../services/live/LivePeers.ts"
import * as Outgoing from "../node/Outgoing.ts"
import { none, Proxies } from "../node/Proxies.ts"
import { exchange } from "../node/UndiciExchange.ts"
import * as ClusterPort from "./ClusterPort.ts"
import { bearerOf } from "./LiveKeys.ts"

/** Milliseconds. An append waits for its answer, and a core for the append. */
const callTimeout = 1000
/** Milliseconds after which a node that could not be reached is tried again. */
const retryAfter = 1000
/** Milliseconds without a byte after which a stream is broken: its node sends one each second. */
const maxSilence = 3000
/** Milliseconds for which the shards of a node are taken as known, unless it says otherwise. */
const shardsFor = 5000
const checkInterval = Duration.millis(250)
const maxAnswerBytes = 16 * 1024 * 1024
/** Reports that wait for one to be answered. */
const maxWaiting = 256
/** UTF-16 units of text in one call, of which JSON makes up to 3 MiB: a longer call would delay the next ones. */
const maxUnits = 512 * 1024
const maxLineBytes = 2 * 1024 * 1024

const decodeShards = Schema.decodeUnknownSync(Shards)
const decodeTakens = Schema.decodeUnknownSync(Takens)
const decodeLine = Schema.decodeUnknownSync(Line)

const parse = (text: string) => toValue<unknown>(OpaqueJson.make(text))

const unitsOf = ({ appends = [], turn }: Handed) =>
  appends.reduce((units, { text }) => units + text.length, turn?.text.length ?? 0)

interface Waiting {
  readonly handed: Handed
  readonly resume: (taken: Taken | undefined) => void
}

interface Followed {
  readonly onChange: (change: Change | null) => boolean
  node: Node | undefined
}

/** Another node. */
class Node {
  readonly address: string
  readonly cluster: { readonly host: string; readonly port: number }
  url: string | undefined
  shards: ReadonlySet<number> = new Set()
  shardsAt = -Infinity
  failedAt = -Infinity
  isSending = false
  readonly waiting: Array<Waiting> = []
  /** The stream of the texts that are followed here. */
  stream: { readonly id: string; readonly abort: () => void; heardAt: number } | undefined
  readonly tasks = new Set<TaskId>()
  /** Followed at the node, but by nobody here any more. */
  readonly unfollowed = new Set<TaskId>()

  constructor(cluster: { readonly host: string; readonly port: number }) {
    this.cluster = cluster
    this.address = `${cluster.host}:${cluster.port}`
  }
}

const make = Effect.fnUntraced(function*(tokens: ReadonlyArray<Redacted.Redacted>) {
  const ownership = yield* TaskOwnership
  const random = yield* SecureRandom.SecureRandom
  const clock = yield* Clock.Clock
  // No proxy is between nodes.
  const dispatcher = yield* Effect.provideService(Outgoing.makeDispatcher({ connections: 8 }), Proxies, none)
  const nodes = new Map<string, Node>()
  const followed = new Map<TaskId, Followed>()
  const now = () => monotonicMillisOf(clock)
  const headers = { authorization: bearerOf(tokens), "content-type": "application/json" }

  /** Calls another node. Fails with undefined as the answer if there is none in time. */
  const call = (node: Node, method: "GET" | "POST", path: string, body?: object) =>
    Effect.callback<string | undefined>((resume) => {
      const bytes = body === undefined ? undefined : encode(JSON.stringify(body))
      const request: Dispatcher.DispatchOptions = {
        origin: node.url!,
        path,
        method,
        headers: bytes === undefined ? headers : { ...headers, "content-length": String(bytes.length) },
        body: bytes ?? null
      }
      let status = 0
      const chunks: Array<Uint8Array> = []
      const timer = setTimeout(() => abort("timeout"), callTimeout)
      const abort = exchange(dispatcher, request, maxAnswerBytes, {
        onHead: (given) => {
          status = given
        },
        onData: (chunk) => void chunks.push(new Uint8Array(chunk)),
        onEnd: (error) => {
          clearTimeout(timer)
          resume(Effect.succeed(
            error === undefined && status === 200 ? Buffer.concat(chunks).toString("utf8") : undefined
          ))
        }
      })
      return Effect.sync(() => abort("interrupted"))
    })

  /** The node with the answer of a call, which also says that it cannot be reached. */
  const ask = Effect.fnUntraced(function*<A>(
    node: Node,
    method: "GET" | "POST",
    path: string,
    decode: (value: unknown) => A,
    body?: object
  ) {
    if (now() - node.failedAt < retryAfter) return undefined
    if (node.url === undefined) {
      const port = yield* Effect.timeoutOption(ClusterPort.ping(node.cluster), callTimeout).pipe(
        Effect.map((found) => found._tag === "Some" ? found.value : undefined),
        Effect.catch(() => Effect.undefined)
      )
      if (port !== undefined) {
        const { host } = node.cluster
        node.url = `http://${host.includes(":") ? `[${host}]` : host}:${port}`
      }
    }
    const text = node.url === undefined ? undefined : yield* call(node, method, path, body)
    if (text === undefined) {
      node.failedAt = now()
      node.url = undefined
      return undefined
    }
    return yield* Effect.try(() => decode(parse(text))).pipe(Effect.catch(() => Effect.undefined))
  })

  const refreshing = Semaphore.makeUnsafe(1)
  const refresh = refreshing.withPermit(Effect.suspend(() => {
    const known = ownership.others()
    const addresses = new Set(known.map(({ host, port }) => `${host}:${port}`))
    for (const cluster of known) {
      const address = `${cluster.host}:${cluster.port}`
      if (!nodes.has(address)) nodes.set(address, new Node(cluster))
    }
    for (const [address, node] of nodes) {
      if (addresses.has(address)) continue
      nodes.delete(address)
      node.stream?.abort()
    }
    return Effect.forEach([...nodes.values()], (node) =>
      now() - node.shardsAt < shardsFor ? Effect.void : Effect.map(
        ask(node, "GET", "/internal/live/shards", decodeShards),
        (found) => {
          node.shards = new Set(found?.shards)
          node.shardsAt = found === undefined ? -Infinity : now()
        }
      ), { concurrency: "unbounded", discard: true })
  }))

  const known = (uuid: TaskId) => {
    const shard = TaskShard.of(uuid)
    for (const node of nodes.values()) {
      if (node.shards.has(shard) && now() - node.shardsAt < shardsFor) return node
    }
    return undefined
  }
  const ownerOf = (uuid: TaskId) =>
    Effect.suspend(() => {
      const node = known(uuid)
      return node === undefined ? Effect.map(refresh, () => known(uuid)) : Effect.succeed(node)
    })

  /** Sends what waits, in one call after the other. */
  const sendSome = Effect.fnUntraced(function*(node: Node) {
    while (node.waiting.length > 0) {
      let units = 0
      const last = node.waiting.findIndex(({ handed }) => (units += unitsOf(handed)) > maxUnits)
      const some = node.waiting.splice(0, last < 0 ? Infinity : Math.max(1, last))
      const answer = yield* ask(node, "POST", "/internal/live/reports", decodeTakens, {
        reports: some.map(({ handed }) => handed)
      })
      some.forEach(({ resume }, index) => {
        const taken = answer?.results[index]
        if (taken?._tag === "NotMine") node.shardsAt = -Infinity
        resume(taken === undefined || taken._tag === "NotMine" ? undefined : taken)
      })
    }
  })
  /** Each that waits is answered, however the calls end. */
  const sendAll = (node: Node) => {
    node.isSending = true
    return Effect.ensuring(
      sendSome(node),
      Effect.sync(() => {
        node.isSending = false
        for (const { resume } of node.waiting.splice(0)) resume(undefined)
      })
    )
  }
  const fork = Effect.runForkWith(yield* Effect.context<never>())

  const hand = Effect.fnUntraced(function*(handed: Handed) {
    const node = yield* ownerOf(handed.uuid)
    if (node === undefined || node.waiting.length >= maxWaiting) return undefined
    return yield* Effect.callback<Taken | undefined>((resume) => {
      node.waiting.push({ handed, resume: (taken) => resume(Effect.succeed(taken)) })
      if (!node.isSending) fork(sendAll(node))
    })
  })

  const lose = (node: Node) => {
    node.stream = undefined
    for (const uuid of node.tasks) {
      const one = followed.get(uuid)
      if (one?.node === node) one.node = undefined
      one?.onChange(null)
    }
    node.tasks.clear()
    node.unfollowed.clear()
    node.shardsAt = -Infinity
  }

  const take = (node: Node, text: string) => {
    const line = decodeLine(parse(text))
    const one = followed.get(line.task)
    if (one === undefined || one.node !== node) return
    if ("isGone" in line) {
      one.node = undefined
      node.tasks.delete(line.task)
      node.shardsAt = -Infinity
      one.onChange(null)
    } else if (!one.onChange(line)) {
      // It is followed anew, with the whole text.
      one.node = undefined
      node.tasks.delete(line.task)
      node.unfollowed.add(line.task)
    }
  }

  /** Opens a stream, and waits for its first byte: then the node knows it. */
  const open = Effect.fnUntraced(function*(node: Node) {
    if (node.stream !== undefined || node.url === undefined) return
    const id = yield* random.uuidV4()
    const hasBegun = Latch.makeUnsafe()
    let rest = Buffer.alloc(0)
    const opened = { id, abort: () => abort("closed"), heardAt: now() }
    const end = () => {
      hasBegun.openUnsafe()
      if (node.stream === opened) lose(node)
    }
    const abort = exchange(
      dispatcher,
      { origin: node.url, path: `/internal/live/texts?stream=${id}`, method: "GET", headers, body: null },
      Infinity,
      {
        onHead: (status) => {
          if (status !== 200) abort(`status ${status}`)
        },
        onData: (chunk) => {
          opened.heardAt = now()
          hasBegun.openUnsafe()
          rest = Buffer.concat([rest, chunk])
          for (let at = rest.indexOf(0x0a); at >= 0; at = rest.indexOf(0x0a)) {
            const line = textOf(rest.subarray(0, at))
            rest = rest.subarray(at + 1)
            try {
              if (line !== "") take(node, line)
            } catch (error) {
              abort(String(error))
              return end()
            }
          }
          if (rest.length > maxLineBytes) {
            abort("a line is too long")
            end()
          }
        },
        onEnd: end
      }
    )
    node.stream = opened
    yield* Effect.timeoutOption(hasBegun.await, callTimeout)
  })

  /** Follows each text at its owner, wherever that is now. */
  const check = Effect.gen(function*() {
    for (const node of nodes.values()) {
      if (node.stream === undefined || now() - node.stream.heardAt < maxSilence) continue
      const { stream } = node
      node.failedAt = now()
      node.url = undefined
      lose(node)
      stream.abort()
    }
    const lost = [...followed].filter(([uuid, { node }]) => node === undefined && !ownership.isMine(uuid))
    for (const [uuid, one] of followed) {
      if (one.node === undefined || !ownership.isMine(uuid)) continue
      one.node.tasks.delete(uuid)
      one.node = undefined
      one.onChange(null)
    }
    const byNode = new Map<Node, Array<TaskId>>()
    for (const node of nodes.values()) if (node.unfollowed.size > 0 && node.tasks.size > 0) byNode.set(node, [])
    for (const [uuid] of lost) {
      const node = yield* ownerOf(uuid)
      if (node !== undefined) byNode.set(node, [...byNode.get(node) ?? [], uuid])
    }
    for (const [node, tasks] of byNode) {
      yield* open(node)
      const { stream } = node
      if (stream === undefined) continue
      // Readers may have left meanwhile.
      const wanted = tasks.filter((uuid) => followed.has(uuid))
      for (const uuid of wanted) {
        followed.get(uuid)!.node = node
        node.tasks.add(uuid)
      }
      const unfollow = [...node.unfollowed]
      node.unfollowed.clear()
      const answer = yield* ask(node, "POST", "/internal/live/follow", () => true, {
        stream: stream.id,
        tasks: wanted,
        unfollow
      })
      if (answer === undefined && node.stream === stream) {
        lose(node)
        stream.abort()
      }
    }
    for (const node of nodes.values()) {
      if (node.tasks.size > 0 || node.stream === undefined) continue
      const { stream } = node
      node.stream = undefined
      node.unfollowed.clear()
      stream.abort()
    }
  })
  const checking = Semaphore.makeUnsafe(1)
  const checkNow = checking.withPermit(check)
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(
    Effect.sleep(checkInterval),
    Effect.suspend(() => followed.size === 0 && nodes.size === 0 ? Effect.void : Effect.ignoreCause(checkNow))
  )))

  const follow = (uuid: TaskId, onChange: Followed["onChange"]) =>
    Effect.asVoid(Effect.acquireRelease(
      Effect.sync(() => {
        followed.set(uuid, { onChange, node: undefined })
        if (!ownership.isMine(uuid)) fork(Effect.ignoreCause(checkNow))
      }),
      () =>
        Effect.sync(() => {
          const node = followed.get(uuid)?.node
          followed.delete(uuid)
          // The next check reports it: a call of its own could overtake the one that follows the text.
          if (node?.tasks.delete(uuid) === true) node.unfollowed.add(uuid)
        })
    ))

  return { hand, follow }
})

export const layer = (tokens: ReadonlyArray<Redacted.Redacted>) => Layer.effect(Peers, make(tokens))
