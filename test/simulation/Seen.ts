/** Observations of each task by clients and the core. */

/** A turn that the core reported. If it was applied, then between the two moments. */
interface ReportedTurn {
  readonly text: string
  sentAt: number
  answeredAt: number
  isApplied: boolean
}

export interface Interrupt {
  readonly calls: ReadonlyArray<string>
  /** The state that has to be sent back on resume. */
  readonly state: unknown
  /** The results that clients sent, as JSON. The service may have accepted any one of them. */
  readonly answers: Set<string>
  taken: string | undefined
  resumed: { readonly runId: string; readonly results: string } | undefined
}

export interface Seen {
  /** The first dispatch of the task, in milliseconds. */
  offeredAt: number | undefined
  /** The first dispatch of the present run that the core did not refuse for lack of room, in milliseconds. */
  handedAt: number | undefined
  firstRun: string | undefined
  /** The runs that were dispatched. */
  readonly offered: Set<string>
  /** By the id of the event. */
  readonly turns: Map<string, ReportedTurn>
  readonly interrupts: Array<Interrupt>
  /** The error messages that the core's failures and refusals may lead to. */
  readonly failures: Set<string>
  readonly cancelReasons: Set<string | null>
  readonly tokens: Set<string>
  /** Whether the core may have sent events other than `processing` without `accepted: true`. */
  hasUnmarkedEvents: boolean
}

export const seenOf = ({ seen }: { readonly seen: Map<string, Seen> }, uuid: string): Seen => {
  const known = seen.get(uuid)
  if (known !== undefined) return known
  const fresh: Seen = {
    offeredAt: undefined,
    handedAt: undefined,
    firstRun: undefined,
    offered: new Set(),
    turns: new Map(),
    interrupts: [],
    failures: new Set(),
    cancelReasons: new Set(),
    tokens: new Set(),
    hasUnmarkedEvents: false
  }
  seen.set(uuid, fresh)
  return fresh
}
