/** Prices of models, per million tokens. A price holds for what is used while it is set. */
import { Context, Schema } from "effect"

const Price = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }))

export const Prices = Schema.Struct({
  currency: Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/, { expected: "three capital letters, as in USD" })),
  models: Schema.Record(
    Schema.String,
    Schema.Struct({
      input: Price,
      output: Price,
      /** The price of input tokens that the provider had cached; `input` by default. */
      cached_input: Schema.optionalKey(Price)
    })
  )
})
export interface Prices extends Schema.Schema.Type<typeof Prices> {}

/** Undefined: nothing has a price. */
export const CurrentPrices = Context.Reference<Prices | undefined>("async-task-service/services/usage/CurrentPrices", {
  defaultValue: () => undefined
})
