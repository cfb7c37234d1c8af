/** The queue for operators: what waits, limits of assistants, and pauses. */
import { Effect, identity, Predicate } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { format, formatOrNull } from "../../domain/Timestamp.ts"
import { CoreClient } from "../../services/core/CoreClient.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { coreMaxAge } from "../../services/operator/Overview.ts"
import { CoreBusy } from "../../services/queue/CoreBusy.ts"
import { Settings } from "../../services/settings/Settings.ts"
import { type AssistantQueue, RunQueue } from "../../services/store/queue/RunQueue.ts"
import { invalid } from "../contract/Errors.ts"
import { BodyReader } from "../handlers/body/BodyReader.ts"
import { kind } from "../handlers/body/JsonBody.ts"
import { audited, logged } from "../OperatorRoutes.ts"
import { unreachable } from "./OperatorViews.ts"
import { ChangeAssistantBody } from "./QueueSchemas.ts"

const changeAssistant = kind(ChangeAssistantBody, { to: identity })

const idOf = (text: string) => {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0
  return id >= 1 && id <= Number.MAX_SAFE_INTEGER
    ? Effect.succeed(id)
    : Effect.fail(invalid("id", `Expected an integer between 1 and ${Number.MAX_SAFE_INTEGER}`))
}

export const make = Effect.gen(function*() {
  const queue = yield* RunQueue
  const busy = yield* CoreBusy
  const core = yield* CoreClient
  const backend = yield* AssistantBackend
  const settings = yield* Settings
  const { read } = yield* BodyReader

  const view = ({ assistantId, isPaused, oldestWaitingSince, running, runs, waiting }: AssistantQueue) => ({
    assistant_id: assistantId,
    name: backend.nameOf(assistantId),
    runs,
    running,
    waiting,
    oldest_waiting_since: formatOrNull(oldestWaitingSince),
    paused: isPaused
  })

  return {
    list: Effect.gen(function*() {
      const { assistants, oldestWaitingSince, running, waiting } = yield* queue.read
      const since = busy.busySince()
      return {
        runs: settings.coreRuns ?? null,
        runs_per_assistant: settings.coreRunsPerAssistant ?? null,
        core_busy_since: since === undefined ? null : format(since),
        core_unreachable: unreachable(yield* core.unreachable(coreMaxAge)),
        running,
        waiting,
        oldest_waiting_since: formatOrNull(oldestWaitingSince),
        assistants: assistants.map(view)
      }
    }),
    change: Effect.fnUntraced(function*(given: string, request: HttpServerRequest.HttpServerRequest) {
      const id = yield* idOf(given)
      const { body: { paused, runs } } = yield* read(changeAssistant, request)
      const change = {
        ...(runs === undefined ? {} : { runs }),
        ...(Predicate.isNullish(paused) ? {} : { isPaused: paused })
      }
      // The reason says what was changed.
      const row = yield* audited(
        { action: "queue", target: String(id), reason: JSON.stringify({ runs, paused: paused ?? undefined }) },
        queue.setAssistant(id, change)
      )
      // Runs that wait may have room now.
      busy.noteWaiting()
      yield* logged("an operator changed the queue of an assistant", { assistantId: id, ...change })
      return HttpServerResponse.jsonUnsafe(view(row))
    })
  }
})
