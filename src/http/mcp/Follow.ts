/** Answers that wait for the end or an interrupt of a task, with signs of progress for the clients that want them. */
import { Duration, Effect, Exit, Option, Stream } from "effect"
import { HttpServerResponse } from "effect/http"
import * as OpaqueJson from "../../domain/json/OpaqueJson.ts"
import type { Writable } from "../../domain/json/Writer.ts"
import type { Caller } from "../../domain/Principal.ts"
import type { TaskHead } from "../../domain/Task.ts"
import { describeQueued, isQueued } from "../../domain/WaitingOn.ts"
import { RunQueue } from "../../services/store/queue/RunQueue.ts"
import { Tasks } from "../../services/tasks/Tasks.ts"
import { makeClient } from "../../services/tasks/Turns.ts"
import * as Defects from "../Defects.ts"
import { hasRun, makeFollow } from "../facades/Following.ts"
import * as Held from "../facades/Held.ts"
import { encode, type Id, json } from "../facades/JsonRpc.ts"
import { CurrentToken } from "../handlers/CurrentToken.ts"
import { failed, makeRead, resultOf } from "./Answers.ts"
import { messageOf } from "./Errors.ts"
import type { Followed } from "./Tools.ts"

/** Seconds. Clients give up after 60 without a sign of progress. */
const usualWait = 25
const longestWait = 50
const longestWaitWithProgress = 290

const progressInterval = Duration.seconds(5)

/** Characters of the message of a progress notification. */
const maxMessage = 200

export const lastLine = (text: string) => text.trimEnd().split("\n").at(-1)?.slice(0, maxMessage) ?? ""

const event = (message: Writable): Uint8Array =>
  OpaqueJson.concat([
    OpaqueJson.encode("event: message\ndata: "),
    Held.onOneLine(encode(message)),
    OpaqueJson.encode("\n\n")
  ])

/** The progress of a task: every 5 s, a growing number and what there is to say. */
const progressOf = (progressToken: Id, message: Effect.Effect<string>) =>
  Stream.tick(progressInterval).pipe(
    Stream.drop(1),
    Stream.zipWithIndex,
    Stream.mapEffect(([, index]) =>
      Effect.map(message, (text) =>
        event({
          jsonrpc: "2.0",
          method: "notifications/progress",
          params: {
            progressToken,
            progress: (index + 1) * Duration.toSeconds(progressInterval),
            ...(text === "" ? {} : { message: text })
          }
        }))
    )
  )

/** Returns a function that describes the place of a run in the queue; undefined for one that is not in it. */
export const makeQueued = Effect.map(
  RunQueue,
  (queue) =>
    Effect.fnUntraced(function*(task: Pick<TaskHead, "uuid" | "status" | "room">) {
      return isQueued(task) ? describeQueued((yield* queue.positions([task.uuid])).get(task.uuid)) : undefined
    })
)

/** A request, without its body. */
export interface Request {
  readonly id: Id
  readonly caller: Caller
  readonly progressToken: Id | undefined
  /** True if the client accepts no JSON. */
  readonly isEventsOnly: boolean
  /** The request is of the era without a handshake, in which a client that leaves cancels its request. */
  readonly isCurrent: boolean
}

type Result = { readonly [field: string]: Writable }

/** The message that answers a request. */
const responseTo = ({ id, isCurrent }: Request, result: Result): Writable => ({
  jsonrpc: "2.0",
  id,
  result: isCurrent ? { resultType: "complete", ...result } : result
})

export const send = (message: Writable, isEventsOnly: boolean) =>
  isEventsOnly ? HttpServerResponse.uint8Array(event(message), Held.events.options) : json(message)

/** The response with a result that is known. */
export const respond = (request: Request, result: Result) => send(responseTo(request, result), request.isEventsOnly)

export const make = Effect.gen(function*() {
  const tasks = yield* Tasks
  const follow = yield* makeFollow
  const open = yield* Held.makeOpen
  const read = yield* makeRead
  const queued = yield* makeQueued

  /** The task as the result of a tool. It never fails: the head of the response has been sent. */
  const describe = ({ caller }: Request, { isRun, uuid }: Followed) =>
    read(caller, uuid).pipe(
      Effect.map(({ task, value }): Result => resultOf(value, isRun && task.status === "failed")),
      Effect.catch((failure) => Effect.succeed(failed(messageOf(failure)))),
      Effect.catchDefect((defect) => Effect.as(Defects.log(defect), failed(Defects.message)))
    )

  /** Withdraws the task of a client that has left. A token that ends closes the connection too, and cancels nothing. */
  const withdraw = Effect.fnUntraced(function*({ principal }: Caller, uuid: string) {
    const { check } = yield* CurrentToken
    if (Exit.isFailure(yield* Effect.exit(check))) return
    yield* Effect.ignore(Effect.flatMap(tasks.getHead(principal, uuid), (head) => tasks.withdraw(head, null)))
  })

  return Effect.fnUntraced(function*(request: Request, task: Followed) {
    const { caller, isCurrent, isEventsOnly, progressToken } = request
    const longest = progressToken === undefined ? longestWait : longestWaitWithProgress
    const seconds = Math.min(task.seconds ?? usualWait, longest)
    // An unknown task, and the request of a user who has too many waiting ones, are answered immediately.
    const followed = seconds === 0
      ? Option.none()
      : yield* Effect.option(follow(caller, task.uuid, progressToken !== undefined))
    let text = ""
    const wait = Option.isNone(followed) || !hasRun(followed.value.head)
      ? Effect.void
      : Stream.runForEach(followed.value.changes, (event) => Effect.sync(() => text = event.text ?? text)).pipe(
        Effect.timeoutOption(Duration.seconds(seconds)),
        Effect.ignore
      )
    const onLeft = isCurrent && task.isBound ? withdraw(caller, task.uuid) : Effect.void
    const answer = Effect.suspend(() => describe(request, task)).pipe(
      Effect.map((result) => responseTo(request, result))
    )
    const ending = Effect.onInterrupt(Effect.andThen(wait, answer), () => onLeft)
    if (progressToken === undefined && !isEventsOnly) {
      const frame = Effect.map(ending, (message) => Stream.make(encode(message)))
      return { onLeft, response: yield* open(makeClient(), Stream.fromEffect(frame), Held.json) }
    }
    const last = Stream.fromEffect(Effect.map(ending, event))
    // Before the first text the run may wait in the queue.
    const message = Effect.suspend(() =>
      text !== "" ? Effect.succeed(text) : Effect.flatMap(tasks.getHead(caller.principal, task.uuid), queued)
    ).pipe(Effect.map((said = "") => lastLine(said)), Effect.orElseSucceed(() => ""))
    const progress = progressToken === undefined ? Stream.empty : progressOf(progressToken, message)
    const frames = Stream.merge(progress, last, { haltStrategy: "right" })
    return {
      onLeft,
      response: yield* open(makeClient(), Stream.map(frames, (bytes) => Stream.make(bytes)), Held.events)
    }
  })
})
