/** Where those who issue tokens revoke them (CONTRACT 6). */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Tasks } from "../../services/Tasks.ts"
import { TokenVerifier } from "../../services/TokenVerifier.ts"
import { Api } from "../contract/Api.ts"
import * as JsonBody from "./JsonBody.ts"
import * as TokenBodies from "./TokenBodies.ts"

const readBody = JsonBody.reader(...TokenBodies.revoke)

export const layer = HttpApiBuilder.group(
  Api,
  "tokens",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    const verifier = yield* TokenVerifier
    return handlers.handleRaw(
      "revoke",
      Effect.fnUntraced(function*({ request }) {
        yield* tasks.revoke(yield* TokenBodies.revocationOf(verifier, yield* readBody(request)))
        return HttpServerResponse.empty({ status: 204 })
      })
    )
  })
)
