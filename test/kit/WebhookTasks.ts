/** Tasks with a callback, whose webhooks go to a scripted target. */
import { Effect, Layer, Queue } from "effect"
import type { TaskId } from "../../src/domain/Task.ts"
import { Tasks } from "../../src/services/tasks/Tasks.ts"
import type { WebhookDispatcher } from "../../src/services/webhooks/WebhookDispatcher.ts"
import { Webhooks } from "../../src/services/webhooks/Webhooks.ts"
import { callerOf, type CoreScript, makeTestTasks, question, reportTo } from "./TestTasks.ts"

export const ann = callerOf("ann")
const secret = "a secret of the tests"
const url = "https://target.example/hook"

type Core = Effect.Success<ReturnType<typeof makeTestTasks>>

export const withTarget = <A, E>(
  onPost: NonNullable<CoreScript["onPost"]>,
  body: (core: Core) => Effect.Effect<A, E, Tasks | Webhooks | WebhookDispatcher>,
  faults: Pick<CoreScript, "withWebhooks"> = {}
) =>
  Effect.flatMap(
    makeTestTasks({ onStart: () => Effect.void, onPost, ...faults }),
    (core) => body(core).pipe(Effect.provide(Layer.fresh(core.layer)))
  )

let eventNumber = 0

/** Creates a task and lets the core complete it. */
export const complete = Effect.fnUntraced(function*(core: Core, more: object = {}, caller = ann, text = "é") {
  const tasks = yield* Tasks
  const { uuid } = yield* tasks.create(caller, { ...question, callbackUrl: url, callbackSecret: secret, ...more })
  const run = yield* Queue.take(core.starts)
  const turn = { output: [{ type: "text", text }], messages: [], metadata: {} }
  yield* reportTo(tasks, { task_id: uuid, run_id: run.runId, event_id: `e${++eventNumber}`, type: "completed", turn })
  return uuid
})

export const stateOf = (uuid: TaskId) =>
  Effect.flatMap(Webhooks, (webhooks) => webhooks.ofTask(ann.principal, uuid)).pipe(
    Effect.map(([delivery]) => delivery?.state)
  )
