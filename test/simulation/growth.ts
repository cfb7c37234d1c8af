/**
 * Computes the figures of Growth.md: how shards, connections and rows grow with nodes and load. Effect Cluster's own
 * hash ring assigns the shards; the rest is computed from settings and from the measurements of `npm run
 * bench:database`. `npm run simulate:growth` prints them.
 */
import { HashRing } from "effect"
import { RunnerAddress } from "effect/cluster"
import * as TaskShard from "../../src/domain/TaskShard.ts"
import { list } from "../docs/markdown.ts"

/** Settings of `Cluster.ts` and `App.ts` that cost database work; a test compares them with the source. */
const cluster = {
  connections: 2,
  /** Intervals in seconds: polls for other nodes, renewals of locks (two statements each), node reports, pings. */
  poll: 0.25,
  renewal: 1,
  report: 2,
  ping: 0.25,
  /** Minimum seconds of each ping of a node. */
  pingSpacing: 0.025,
  /** Seconds between the announcements of a node on the NOTIFY channel. */
  announcement: 5
}

/**
 * The larger values of two runs of `npm run bench:database` on two cores that node, core, client and Postgres share.
 */
const measured = {
  /** For a task with 1 kB of input and of output: bytes in tables and indexes, bytes of WAL, and statements. */
  taskBytes: 4737,
  taskLog: 6272,
  taskStatements: 2.1
}

/** Assumed tasks per second of a node, from create to end. Measured: 70 and 181. */
const rateOfNode = 100
/** Notified changes of one task: accepted, completed. */
const changesOfTask = 2
const retentionDays = 30
const pool = 10
/** Connections that Postgres reserves for superusers. */
const reserved = 3

const shardCounts = [TaskShard.count, 300, 1000]
const samples = 4

const addressOf = (sample: number, node: number) =>
  RunnerAddress.make(`10.${sample}.${Math.floor(node / 256)}.${node % 256}`, 34431)

const rings = new Map<string, HashRing.HashRing<RunnerAddress.RunnerAddress>>()

const ringOf = (sample: number, nodes: number) => {
  const key = `${sample}:${nodes}`
  const ring = rings.get(key) ?? HashRing.addMany(
    HashRing.make<RunnerAddress.RunnerAddress>(),
    Array.from({ length: nodes }, (_, node) => addressOf(sample, node))
  )
  rings.set(key, ring)
  return ring
}

/** The owner of each shard. */
const assigned = (sample: number, nodes: number, shards: number): ReadonlyArray<string> =>
  (HashRing.getShards(ringOf(sample, nodes), shards) ?? []).map(({ host }) => host)

const mean = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0) / values.length

const overSamples = (measure: (sample: number) => number) =>
  mean(Array.from({ length: samples }, (_, sample) => measure(sample)))

const most = (owners: ReadonlyArray<string>) => {
  const counts = new Map<string, number>()
  for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1)
  return Math.max(...counts.values())
}

const grouped = (value: number) => Math.round(value).toLocaleString("en")

/** For 60, 300 and 1,000 shards: the load of the fullest node relative to an even share, and the number of nodes without a shard. */
const balance = list([20, 60, 100, 300].map((nodes) => {
  const cells = shardCounts.map((shards) => {
    const fullest = overSamples((sample) => most(assigned(sample, nodes, shards)) / (shards / nodes))
    const idle = overSamples((sample) => nodes - new Set(assigned(sample, nodes, shards)).size)
    return `${fullest.toFixed(2)}${idle === 0 ? "" : ` (${idle.toFixed(0)} idle)`}`
  })
  return `${nodes} nodes: ${cells.join(", ")}`
}))

/** The connections of a node: its pool, the renewal of its locks, and the monitor. The two of a migration come before the others. */
export const connectionsOf = (size: number) => size + cluster.connections + 1

const connections = list([5, pool, 20].map((size) => {
  const nodes = [100, 500, 1000].map((maximum) => Math.floor((maximum - reserved) / connectionsOf(size)))
  return `${size}: ${nodes.join(", ")} nodes`
}))

/** Statements, pings, and announcements that are received, a second. */
const chatter = list([3, 10, 100, 1000].map((nodes) => {
  const statements = nodes * (1 / cluster.poll + 2 / cluster.renewal + 1 / cluster.report)
  const pings = nodes * Math.min((nodes - 1) / cluster.ping, 1 / cluster.pingSpacing)
  const figures = [statements, pings, nodes * nodes / cluster.announcement].map(grouped)
  return `${grouped(nodes)} nodes: ${figures.join("; ")}`
}))

const day = 86_400

const load = list([1, 10, 100, 1000].map((nodes) => {
  const rate = nodes * rateOfNode
  const figures = [
    grouped(rate * measured.taskStatements),
    // Each node receives the changes of all other nodes.
    grouped(rate * changesOfTask * (nodes - 1)),
    `${(rate * measured.taskLog / 1e6).toFixed(1)} MB/s`,
    `${(rate * day * retentionDays * measured.taskBytes / 1e12).toFixed(1)} TB`
  ]
  return `${grouped(rate)}/s, ${grouped(nodes)} nodes: ${figures.join("; ")}`
}))

/** The lists of Growth.md. */
export const tables: Readonly<Record<string, string>> = { connections, load }

if (import.meta.main) {
  for (const [name, text] of Object.entries({ balance, ...tables, chatter })) console.log(`${name}\n\n${text}\n`)
}
