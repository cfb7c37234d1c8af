/** `client.usage`: what the caller's tasks consumed. */
import type { CallOptions, Transport } from "./Transport.ts"
import type { TokenCounts } from "./Types.ts"

export type UsageStep = "hour" | "day" | "month" | "total"

export interface UsageOptions extends CallOptions {
  /** ISO 8601; the begin of this UTC month by default. */
  readonly from?: string | undefined
  /** ISO 8601, exclusive; now by default. */
  readonly to?: string | undefined
  /** `day` by default. */
  readonly step?: UsageStep | undefined
  readonly group_by?: ReadonlyArray<"assistant" | "model"> | undefined
  readonly assistant_id?: number | undefined
}

export interface UsageTotals extends TokenCounts {
  /** Tasks that ended in the period. */
  readonly tasks: number
  readonly ended: { readonly completed: number; readonly failed: number; readonly canceled: number }
  readonly unpriced_tokens: number
  /** Tasks that ended without reported usage. */
  readonly unmetered_tasks: number
}

export interface UsageBucket extends UsageTotals {
  readonly from: string
  /** Exclusive. */
  readonly to: string
  /** The keys of `group_by`. The model is null where the core named none; only operators see users. */
  readonly group: { readonly assistant?: number; readonly model?: string | null; readonly sub?: string }
}

export interface Usage {
  readonly data: ReadonlyArray<UsageBucket>
  readonly totals: UsageTotals
  readonly meta: {
    readonly from: string
    readonly to: string
    readonly step: UsageStep
    readonly currency: string | null
    /** Everything before this moment is final. */
    readonly complete_until: string
  }
}

export class UsageResource {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Sums by period and group. */
  get({ assistant_id, from, group_by = [], step, to, ...options }: UsageOptions = {}): Promise<Usage> {
    const fields = { from, to, step, assistant_id, group_by: group_by.length === 0 ? undefined : group_by.join(",") }
    const given = Object.entries(fields).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]])
    const query = given.length === 0 ? "" : `?${new URLSearchParams(given)}`
    return this.#transport.json({ ...options, method: "GET", path: `/api/usage${query}` })
  }
}
