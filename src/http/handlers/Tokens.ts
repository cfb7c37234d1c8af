/** The endpoint at which token issuers revoke tokens. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Tasks } from "../../services/Tasks.ts"
import { TokenVerifier } from "../../services/tokens/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { storeErrors } from "./ErrorResponses.ts"
import * as TokenBodies from "./TokenBodies.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "tokens",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier
    const { read } = yield* BodyReader
    return handlers.handleRaw(
      "revoke",
      Effect.fnUntraced(function*({ request }) {
        const { body } = yield* read("revokeTokens", request)
        yield* tasks.revoke(yield* TokenBodies.revocationOf(verifier, body))
        return HttpServerResponse.empty({ status: 204 })
      }, Effect.catchTags(storeErrors))
    )
  })
)
