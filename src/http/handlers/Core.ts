/** The endpoint to which the processing core reports events. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Tasks } from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, RunConflict } from "../contract/Errors.ts"
import { BodyReader } from "./body/BodyReader.ts"
import { storeErrors } from "./ErrorResponses.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "core",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    const { read } = yield* BodyReader
    return handlers.handleRaw(
      "report",
      Effect.fnUntraced(
        function*({ request }) {
          const { body } = yield* read("coreEvent", request)
          return HttpServerResponse.jsonUnsafe(yield* tasks.report(body))
        },
        Effect.catchTags({
          ...storeErrors,
          TaskNotFound: ({ message }) => Effect.fail(new NotFound({ message })),
          RunSuperseded: ({ message, status }) => Effect.fail(new RunConflict({ message, status }))
        })
      )
    )
  })
)
