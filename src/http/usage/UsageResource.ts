/** `client.usage`: what the caller's tasks consumed. */
import { type CallOptions, queryOf, separate, type Transport } from "../client/promise/Transport.ts"
import type { GetUsageQuery, Usage } from "../client/promise/Types.ts"

export interface UsageOptions extends CallOptions, GetUsageQuery {}

export class UsageResource {
  readonly #transport: Transport

  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Sums by period and group. */
  get(options: UsageOptions = {}): Promise<Usage> {
    const { options: given, query } = separate(options)
    return this.#transport.json({ ...given, method: "GET", path: `/api/usage${queryOf(query)}` })
  }
}
