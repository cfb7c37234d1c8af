/** What clients and the core remember of each task. */

/** A turn that the core reported; it took effect between the two moments, if at all. */
interface ReportedTurn {
  readonly text: string
  sentAt: number
  answeredAt: number
  isApplied: boolean
}

export interface Interrupt {
  readonly calls: ReadonlyArray<string>
  /** As it must be handed back. */
  readonly state: unknown
  /** What clients answered, as JSON; any of it may have been taken. */
  readonly answers: Set<string>
  taken: string | undefined
  resumed: { readonly runId: string; readonly results: string } | undefined
}

export interface Seen {
  /** The first attempt to hand the task over, in milliseconds. */
  offeredAt: number | undefined
  firstRun: string | undefined
  readonly offered: Set<string>
  /** By the id of the event. */
  readonly turns: Map<string, ReportedTurn>
  readonly interrupts: Array<Interrupt>
  /** The errors that the core's failures and refusals stand for. */
  readonly failures: Set<string>
  readonly cancelReasons: Set<string | null>
  readonly tokens: Set<string>
  /** Whether its runs take down the node that offers them, and how many they have. */
  isPoison: boolean
  nodesLost: number
}

export const seenOf = ({ seen }: { readonly seen: Map<string, Seen> }, uuid: string): Seen => {
  const known = seen.get(uuid)
  if (known !== undefined) return known
  const fresh: Seen = {
    offeredAt: undefined,
    firstRun: undefined,
    offered: new Set(),
    turns: new Map(),
    interrupts: [],
    failures: new Set(),
    cancelReasons: new Set(),
    tokens: new Set(),
    isPoison: false,
    nodesLost: 0
  }
  seen.set(uuid, fresh)
  return fresh
}
