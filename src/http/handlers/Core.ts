/** The endpoint to which the processing core reports events. */
import { Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Tasks } from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, RunConflict } from "../contract/Errors.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { storeErrors } from "./ErrorResponses.ts"
import * as Group from "./Group.ts"

export const layer = Group.layer(Effect.gen(function*() {
  const tasks = yield* Tasks
  const { read } = yield* BodyReader
  const report = Effect.fnUntraced(
    function*(request: HttpServerRequest.HttpServerRequest) {
      const { body } = yield* read("coreEvent", request)
      return HttpServerResponse.jsonUnsafe(yield* tasks.report(body))
    },
    Effect.catchTags({
      ...storeErrors,
      TaskNotFound: ({ message }) => Effect.fail(new NotFound({ message })),
      RunSuperseded: ({ message, status }) => Effect.fail(new RunConflict({ message, status }))
    })
  )
  return HttpApiBuilder.group(Api, "core", (handlers) => handlers.handleRaw("report", ({ request }) => report(request)))
}))
