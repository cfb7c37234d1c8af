/** Reads responses: as they are, when they have ended, or as a stream of events. */
import { Duration, Effect, Stream } from "effect"
import type { Caller, Principal } from "../../../domain/Principal.ts"
import type { TaskId } from "../../../domain/Task.ts"
import { TaskNotFound } from "../../../domain/TaskErrors.ts"
import { AssistantBackend } from "../../../services/files/AssistantBackend.ts"
import { FacadeLegs } from "../../../services/store/FacadeLegs.ts"
import { Tasks } from "../../../services/Tasks.ts"
import { TaskWatch } from "../../../services/TaskWatch.ts"
import * as Events from "./Events.ts"
import type * as Ids from "./Ids.ts"
import * as Response from "./Response.ts"

const maxLeg = 2 ** 31 - 1

/** The longest wait of a request for the end of a response. */
const maxWait = Duration.minutes(10)

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs
  const watch = yield* TaskWatch
  const backend = yield* AssistantBackend

  const find = Effect.fnUntraced(function*(principal: Principal, id: Ids.LegId) {
    // The task first: a leg that is answered in between is then read as answered.
    const task = yield* tasks.get(principal, id.uuid)
    const found = yield* legs.find(id.uuid, id.leg)
    if (found === undefined || id.leg > found.current) return yield* new TaskNotFound({})
    return { task, found, snapshot: Response.snapshotOf(task, id.leg, found) }
  })

  /** The current leg of a task; undefined unless the task was created here. */
  const latest = (uuid: TaskId) =>
    Effect.map(legs.find(uuid, maxLeg), (found) => found === undefined ? undefined : { uuid, leg: found.current })

  const render = Effect.fnUntraced(function*(caller: Caller, snapshot: Response.Snapshot) {
    const storageBase = Response.hasLinks(snapshot) ? yield* backend.storageBase(caller.token) : ""
    return Response.responseOf(snapshot, Response.outputOf(snapshot, storageBase))
  })

  const get = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { snapshot } = yield* find(caller.principal, id)
    return yield* render(caller, snapshot)
  })

  /** The leg, and the events of its task that follow. Fails when the user has too many waiting requests. */
  const follow = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId, includesText: boolean) {
    const head = yield* tasks.getHead(caller.principal, id.uuid)
    const events = yield* watch.events(head, head.revision, includesText)
    const { snapshot } = yield* find(caller.principal, id)
    const changes = Stream.takeUntil(events, (event) => !Response.isActive(event))
    return { snapshot, changes: Response.isActive(snapshot) ? changes : Stream.empty }
  })

  /** Returns an effect that returns the response at its end, or as it is after `maxWait` or when the node drains. */
  const wait = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { changes } = yield* follow(caller, id, false)
    return Stream.runDrain(changes).pipe(
      Effect.timeoutOption(maxWait),
      Effect.andThen(get(caller, id))
    )
  })

  /** The events with a number above `after`. A stream that the node's drain cuts off lacks `Events.done`. */
  const events = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId, after: number) {
    const { changes, snapshot } = yield* follow(caller, id, true)
    const deltas = Events.makeDeltas(id, after)
    const finish = Effect.gen(function*() {
      const response = yield* render(caller, (yield* find(caller.principal, id)).snapshot)
      return [...deltas(Response.messageText(response.output)), ...Events.closing(response), Events.done]
    })
    const first = Response.isActive(snapshot) ? Effect.sync(() => deltas(snapshot.turn.text)) : finish
    const rest = Stream.mapEffect(
      changes,
      (event) => Response.isActive(event) ? Effect.sync(() => deltas(event.text ?? "")) : finish
    )
    return Stream.make(Events.opening(Response.responseOf(snapshot, []))).pipe(
      Stream.concat(Stream.fromEffect(first)),
      Stream.concat(rest),
      Stream.flattenIterable,
      Stream.filter(({ sequence_number }) => sequence_number > after)
    )
  })

  return { find, latest, get, wait, events }
})

export interface Responses extends Effect.Success<typeof make> {}
