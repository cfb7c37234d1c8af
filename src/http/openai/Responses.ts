/** Reads responses: as they are, when they have ended, or as a stream of events. */
import { Effect, Stream } from "effect"
import type { RawJson } from "../../domain/json/RawJson.ts"
import type { Caller, Principal } from "../../domain/Principal.ts"
import type { TaskId } from "../../domain/Task.ts"
import { TaskNotFound } from "../../domain/TaskErrors.ts"
import { readCalls } from "../../domain/ToolCall.ts"
import { FacadeLegs } from "../../services/facades/FacadeLegs.ts"
import { AssistantBackend, storageBaseOrNone } from "../../services/files/AssistantBackend.ts"
import type { TaskOutline } from "../../services/store/tasks/TaskStore.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { type Client, type TurnOf, Turns } from "../../services/tasks/Turns.ts"
import { hasRun, makeFollow, makeFollowText, maxWait } from "../facades/Following.ts"
import { FacadeSettings } from "../facades/Settings.ts"
import * as TurnReader from "../facades/TurnReader.ts"
import * as Events from "./Events.ts"
import type * as Ids from "./Ids.ts"
import * as Response from "./Response.ts"

const maxLeg = 2 ** 31 - 1

/** Slices of the text, each with a pause. */
const slicesOf = (text: RawJson | undefined) => text === undefined ? [] : TurnReader.slicesOf(text)

const makeReads = Effect.gen(function*() {
  const tasks = yield* Tasks
  const legs = yield* FacadeLegs
  const backend = yield* AssistantBackend
  const turns = yield* Turns

  /** A leg without its turn, which may be large. */
  const find = Effect.fnUntraced(function*(principal: Principal, id: Ids.LegId) {
    // The task first: a leg that is answered in between is then read as answered.
    const task = yield* tasks.getOutline(principal, id.uuid)
    const found = yield* legs.find(id.uuid, id.leg)
    if (found === undefined || id.leg > found.current) return yield* new TaskNotFound({})
    const calls = yield* readCalls(task.pendingToolCalls)
    return { task, found, snapshot: Response.snapshotOf(task, calls, id.leg, found) }
  })

  /** The current leg of a task; undefined unless the task was created here. */
  const latest = (uuid: TaskId) =>
    Effect.map(legs.find(uuid, maxLeg), (found) => found === undefined ? undefined : { uuid, leg: found.current })

  const read = (task: TurnOf) => turns.read(task, TurnReader.shape, TurnReader.read)

  const loadWith = <E, R>(read: (task: TaskOutline) => Effect.Effect<TurnReader.ReadTurn | undefined, E, R>) =>
    Effect.fnUntraced(function*(principal: Principal, id: Ids.LegId) {
      const { snapshot, task } = yield* find(principal, id)
      const turn = snapshot.hasTurn ? yield* read(task) : undefined
      return turn === undefined ? snapshot : { ...snapshot, turn }
    })
  /** The same with its turn. */
  const load = loadWith(read)

  const render = Effect.fnUntraced(function*(caller: Caller, snapshot: Response.Snapshot) {
    const storageBase = Response.hasLinks(snapshot) ? yield* storageBaseOrNone(backend, caller.token) : ""
    return Response.responseOf(snapshot, Response.outputOf(snapshot, storageBase))
  })
  const get = (caller: Caller, id: Ids.LegId) =>
    Effect.flatMap(load(caller.principal, id), (snapshot) => render(caller, snapshot))

  const share = yield* turns.share((version) => read({ ...version, turn: null }))
  /** The same for a client. A large turn is shared with others who read it at the same time. */
  const show = (client: Client, caller: Caller, id: Ids.LegId) =>
    Effect.flatMap(
      loadWith((task) => task.turn === null && task.turnBytes > 0 ? share(client, task) : read(task))(
        caller.principal,
        id
      ),
      (snapshot) => render(caller, snapshot)
    )

  return { find, get, latest, load, show }
})

export const make = Effect.gen(function*() {
  const followTask = yield* makeFollow
  const followText = yield* makeFollowText
  const tasks = yield* Tasks
  const reads = yield* makeReads
  const { find, show } = reads
  const { onlyAppends } = yield* FacadeSettings

  /** The leg, and the events of its task that follow. Fails when the user has too many waiting requests. */
  const follow = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId, includesText: boolean) {
    const { changes } = yield* followTask(caller, id.uuid, includesText)
    const { snapshot } = yield* find(caller.principal, id)
    return { snapshot, changes: hasRun(snapshot) ? changes : Stream.empty }
  })

  /** Returns an effect that completes at the end of the response, after `maxWait`, or when the node drains. */
  const wait = Effect.fnUntraced(function*(caller: Caller, id: Ids.LegId) {
    const { changes } = yield* follow(caller, id, false)
    return Effect.timeoutOption(Stream.runDrain(changes), maxWait)
  })

  /**
   * The events with a number above `after`. No event takes a delta back, so that the text of a core that reports turns comes at the end,
   * unless it only adds to them. Of a core that appends it comes as it is written; after a text that is another one, no delta follows. A
   * stream that the node's drain cuts off lacks `Events.done`.
   */
  const events = Effect.fnUntraced(function*(client: Client, caller: Caller, id: Ids.LegId, after: number) {
    const head = yield* tasks.getHead(caller.principal, id.uuid)
    const changes = yield* followText(head, false)
    const { snapshot } = yield* find(caller.principal, id)
    const deltas = Events.makeDeltas(id, after)
    const finish = Stream.unwrap(
      Effect.map(
        show(client, caller, id),
        (response) =>
          Stream.fromIterable(deltas.ofSlices(slicesOf(Response.messageText(response.items))), { chunkSize: 1 }).pipe(
            Stream.tap(() => Effect.yieldNow),
            Stream.concat(Stream.make([...Events.closing(response), Events.done]))
          )
      )
    )
    const first = hasRun(snapshot) ? Stream.empty : finish
    const rest = Stream.flatMap(
      hasRun(snapshot) ? changes : Stream.empty,
      (change) =>
        !hasRun(change)
          ? finish
          : change.isAppended === true || onlyAppends
          ? Stream.sync(() => deltas.ofText(change.text ?? ""))
          : Stream.empty
    )
    return Stream.make(Events.opening(Response.responseOf(snapshot, []))).pipe(
      Stream.concat(first),
      Stream.concat(rest),
      Stream.flattenIterable,
      Stream.filter(({ sequence_number }) => sequence_number > after)
    )
  })

  return { ...reads, wait, events }
})

export interface Responses extends Effect.Success<typeof make> {}
