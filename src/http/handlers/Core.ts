/** Where the processing core reports (CONTRACT 4). */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { Tasks } from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, RunConflict } from "../contract/Errors.ts"
import * as JsonBody from "./JsonBody.ts"
import * as TaskBodies from "./TaskBodies.ts"

const readEvent = JsonBody.reader(...TaskBodies.coreEvent)

export const layer = HttpApiBuilder.group(
  Api,
  "core",
  Effect.fn(function*(handlers) {
    const tasks = yield* Tasks
    return handlers.handleRaw(
      "report",
      Effect.fnUntraced(
        function*({ request }) {
          const event = yield* readEvent(request)
          return HttpServerResponse.jsonUnsafe(yield* tasks.report(event))
        },
        Effect.catchTags({
          TaskNotFound: ({ message }) => Effect.fail(new NotFound({ message })),
          RunSuperseded: ({ message, status }) => Effect.fail(new RunConflict({ message, status }))
        })
      )
    )
  })
)
