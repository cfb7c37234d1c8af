/** Where the processing core reports (CONTRACT 4). */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CoreEvent } from "../../domain/CoreProtocol.ts"
import * as Limits from "../../domain/Limits.ts"
import { Tasks } from "../../services/Tasks.ts"
import { Api } from "../contract/Api.ts"
import { NotFound, RunConflict } from "../contract/Errors.ts"
import * as JsonBody from "./JsonBody.ts"

const readEvent = JsonBody.reader(CoreEvent, { maxItems: { tool_calls: Limits.toolCalls } })

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
          TaskNotFound: () => Effect.fail(new NotFound({ message: "There is no such task." })),
          RunSuperseded: ({ status }) =>
            Effect.fail(new RunConflict({ message: "The run is not the task's current one: stop it.", status }))
        })
      )
    )
  })
)
