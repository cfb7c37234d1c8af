/** `GET /api/tasks/{uuid}?include=usage`. */
import { Effect } from "effect"
import type { TaskLink } from "../Extensions.ts"
import { UsageStore } from "./UsageStore.ts"

export const make = Effect.map(UsageStore, (store): TaskLink => ({
  name: "usage",
  describe: (uuid) =>
    Effect.map(store.ofTask(uuid), (usage) =>
      usage === null ? null : {
        input_tokens: usage.inputTokens,
        output_tokens: usage.outputTokens,
        total_tokens: usage.totalTokens,
        cached_input_tokens: usage.cachedInputTokens,
        reasoning_tokens: usage.reasoningTokens,
        active_seconds: usage.activeSeconds,
        cost: usage.cost,
        source: usage.isMetered ? "reported" : "none",
        is_final: usage.isFinal
      })
}))
