/** The store cannot be reached. A change in flight may or may not have taken effect. */
import { Schema } from "effect"

export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  cause: Schema.Defect()
}) {
  override get message() {
    return "The service cannot reach its database at the moment. Try again soon."
  }
}
