/** The response to a request that needs the store during its outage. */
import { Effect } from "effect"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { ServiceUnavailable } from "../contract/Errors.ts"

export const storeErrors = {
  StoreUnavailable: ({ message }: StoreUnavailable) => Effect.fail(new ServiceUnavailable({ message }))
}
