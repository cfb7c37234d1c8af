/** Usage as JSON, for REST and RPC. */
import { Duration, Effect } from "effect"
import { format, now, plus } from "../../domain/Timestamp.ts"
import { CurrentPrices } from "../../services/usage/Prices.ts"
import {
  type Amounts,
  type Bucket,
  decode,
  endOf,
  limits,
  type Parameters,
  settling,
  type UsageQuery
} from "../../services/usage/Usage.ts"
import { UsageStore } from "../../services/usage/UsageStore.ts"
import { invalid } from "../contract/Errors.ts"
import { validationFailed } from "../handlers/body/BodyErrors.ts"
import type { UsageView } from "./UsageSchemas.ts"

const amountsOf = (amounts: Amounts) => ({
  tasks: amounts.tasks,
  ended: { completed: amounts.completed, failed: amounts.failed, canceled: amounts.canceled },
  input_tokens: amounts.inputTokens,
  output_tokens: amounts.outputTokens,
  total_tokens: amounts.totalTokens,
  cached_input_tokens: amounts.cachedInputTokens,
  reasoning_tokens: amounts.reasoningTokens,
  active_seconds: amounts.activeSeconds,
  cost: amounts.cost,
  unpriced_tokens: amounts.unpricedTokens,
  unmetered_tasks: amounts.unmeteredTasks
})

const groupOf = ({ assistant, model, sub }: Bucket) => ({
  ...(assistant === undefined ? {} : { assistant }),
  ...(model === undefined ? {} : { model }),
  ...(sub === undefined ? {} : { sub })
})

const bucketOf = (query: UsageQuery) => (bucket: Bucket) => ({
  from: format(bucket.from),
  to: format(endOf(bucket.from, query)),
  group: groupOf(bucket),
  ...amountsOf(bucket)
})

const tooMany = invalid(
  "step",
  `Expected at most ${limits.buckets} buckets: use a longer step, a shorter range or fewer groups`
)

/** Returns a function that answers the parameters of a query. `sub` is the user who asks; null for an operator. */
export const make = Effect.gen(function*() {
  const store = yield* UsageStore
  const prices = yield* CurrentPrices
  return Effect.fnUntraced(function*(given: Parameters, sub: string | null) {
    const at = yield* now
    const query = yield* Effect.mapError(Effect.fromResult(decode(given, sub, at)), validationFailed)
    const { buckets, totals } = yield* store.read(query)
    if (buckets.length > limits.buckets) return yield* tooMany
    const view: typeof UsageView.Type = {
      data: buckets.map(bucketOf(query)),
      totals: amountsOf(totals),
      meta: {
        from: format(query.from),
        to: format(query.to),
        step: query.step,
        currency: prices?.currency ?? null,
        complete_until: format(plus(at, Duration.negate(settling)))
      }
    }
    return view
  })
})
