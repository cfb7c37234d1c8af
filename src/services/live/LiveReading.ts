/**
 * Reads a task as a stream of its events with its text: what was written meanwhile is joined, so that a reader gets at most 20 texts a
 * second. A reader costs its place in the text and what its connection has not taken.
 */
import { type Cause, Context, Deferred, Effect, Latch, Layer, Queue, type Scope, Stream } from "effect"
import { textOfToken } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type TaskHead } from "../../domain/Task.ts"
import type { TooManyWaiting } from "../../domain/TaskErrors.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { TaskReads } from "../store/tasks/TaskReads.ts"
import { TaskWatch, type WatchedEvent } from "../tasks/TaskWatch.ts"
import { type Client, makeClient, Turns } from "../tasks/Turns.ts"
import { keptUnits, type LiveText } from "./LiveText.ts"
import { LiveTexts, textShape } from "./LiveTexts.ts"

/** Events and texts that wait for a connection. */
const capacity = 16

/** Where a reader is: the last revision that it has, or -1, and the units of the text that it has, or `unknownEnd`. */
export interface Place {
  readonly revision: number
  readonly end: number
}

/** No text has so many units, so that a reader that comes back with it gets the whole text. */
const unknownEnd = Number.MAX_SAFE_INTEGER

export interface TextEvent {
  readonly offset: number
  readonly text: string
  readonly replaced?: true
}

/** How a reader gets what it reads. Readers of one text that are at the same place share what `text` returns. */
export interface Form<A> {
  readonly text: (event: TextEvent, place: Place, text: Pick<LiveText, "runId" | "hasAppends">) => A
  readonly event: (event: WatchedEvent, place: Place) => A
  /** Sent while nothing else is. */
  readonly idle: A
}

export class LiveReading extends Context.Service<LiveReading, {
  /**
   * The events after a place, as `TaskWatch.events`, with the text behind it. All text comes before the event that ends the task or
   * interrupts it. The stream is interrupted when its reader is too slow.
   */
  readonly read: <A>(
    task: TaskHead,
    after: Place,
    form: Form<A>,
    includesTurn?: boolean
  ) => Effect.Effect<Stream.Stream<A, StoreUnavailable>, TooManyWaiting>
}>()("async-task-service/services/live/LiveReading") {
  static readonly layer = Layer.effect(LiveReading, Effect.suspend(() => make))
}

/** What was encoded last of each text. */
interface Encoded {
  readonly form: unknown
  readonly version: number
  readonly from: number
  readonly to: number
  readonly revision: number
  readonly value: unknown
}

const endsPart = ({ status }: WatchedEvent) => isTerminal(status) || status === "interrupted"

/** A part of a text that begins within it has another beginning than 0. */
const partsOf = function*(text: string, from: number, to: number) {
  for (let at = from; at < to;) {
    let end = Math.min(to, at + keptUnits)
    const last = text.charCodeAt(end - 1)
    if (end < to && last >= 0xd800 && last < 0xdc00) end--
    yield { offset: at, text: text.slice(at, end) }
    at = end
  }
}

const make = Effect.gen(function*() {
  const texts = yield* LiveTexts
  const watch = yield* TaskWatch
  const reads = yield* TaskReads
  const turns = yield* Turns
  const encoded = new WeakMap<LiveText, Encoded>()

  /** The whole text of a stored turn, in memory that is shared with others who read it at the same time. */
  const readWhole = yield* turns.share((version) =>
    turns.read({ ...version, turn: null }, textShape, (turn, bytes) => {
      const text = TurnParts.textOf(turn, bytes)
      return text === undefined ? "" : textOfToken(text.bytes, 0, text.bytes.length, true)
    })
  )

  const follow = Effect.fnUntraced(function*<A>(
    task: TaskHead,
    after: Place,
    form: Form<A>,
    recorded: Stream.Stream<WatchedEvent, StoreUnavailable>,
    queue: Queue.Queue<A, StoreUnavailable | Cause.Done>,
    client: Client,
    cut: Deferred.Deferred<void>
  ): Effect.fn.Return<void, StoreUnavailable, Scope.Scope> {
    const text = yield* texts.open(task)
    let { end, revision } = after
    let { version } = text
    /** Whether what the reader has is no beginning of this text. */
    let isOther = end > 0 && (after.revision < text.base || end > text.end)
    /** Closed while the beginning comes from the store. */
    const caughtUp = Latch.makeUnsafe(true)

    const encode = (event: TextEvent): A => {
      const to = event.offset + event.text.length
      end = to
      const last = encoded.get(text)
      const isSame = last !== undefined && last.form === form.text && last.version === version && last.to === to &&
        last.from === event.offset && last.revision === revision && event.replaced === undefined
      // The form is the one that has made it.
      if (isSame) return last.value as A
      const value = form.text(event, { revision, end }, text)
      if (event.replaced === undefined) {
        encoded.set(text, { form: form.text, version, from: event.offset, to, revision, value })
      }
      return value
    }

    /** The next text event; undefined if the reader has all, or has to get the beginning from the store first. */
    const take = (to: number): A | undefined => {
      if (version !== text.version) {
        isOther ||= end > 0
        version = text.version
        if (!isOther) end = 0
      }
      if (isOther) {
        if (text.offset > 0 || to === 0) return undefined
        isOther = false
        return encode({ offset: 0, text: text.part(0, to).text, replaced: true })
      }
      return end >= to || end < text.offset ? undefined : encode(text.part(end, to))
    }
    const lacksBeginning = () => (isOther || end < text.offset) && text.offset > 0

    /** The beginning that is not kept any more, from the stored turn as far as that has it. */
    const catchUp = Effect.fnUntraced(function*() {
      caughtUp.closeUnsafe()
      const outline = yield* reads.outline(task.uuid)
      const version = outline._tag === "None" ? undefined : outline.value
      const whole = version === undefined ? undefined : yield* readWhole(client, version)
      const reach = text.offset
      if (whole === undefined || whole.length < reach || !text.continues({ offset: 0, text: whole })) {
        isOther = false
        yield* Queue.offer(queue, encode({ ...text.part(reach, text.wholeEnd), replaced: true }))
      } else {
        for (const part of partsOf(whole, isOther ? 0 : end, reach)) {
          const replaced = isOther ? { replaced: true as const } : {}
          isOther = false
          yield* Queue.offer(queue, encode({ ...part, ...replaced }))
          yield* Effect.sleep(Limits.textInterval)
        }
      }
      caughtUp.openUnsafe()
    }, Effect.scoped)

    const behind = yield* Queue.sliding<void>(1)
    const onChange = () => {
      if (revision < 0 || !caughtUp.isOpen()) return
      if (Queue.sizeUnsafe(queue) > 0) {
        // The connection has not taken the last one yet.
        if (text.end - end > Limits.unreadText) Deferred.doneUnsafe(cut, Effect.void)
        else texts.tellLater(text)
        return
      }
      if (lacksBeginning()) return Queue.offerUnsafe(behind, undefined)
      const next = take(text.wholeEnd)
      if (next !== undefined) Queue.offerUnsafe(queue, next)
    }
    const follower = { onChange }
    yield* Effect.acquireRelease(
      Effect.sync(() => void text.followers.add(follower)),
      () => Effect.sync(() => void text.followers.delete(follower))
    )
    yield* Effect.forkScoped(
      Effect.forever(
        Effect.andThen(
          Queue.take(behind),
          Effect.suspend(() => lacksBeginning() ? Effect.tap(catchUp(), () => Effect.sync(onChange)) : Effect.void)
        )
      )
    )
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(
      Effect.sleep(Limits.keepAliveInterval),
      Effect.sync(() => Queue.sizeUnsafe(queue) === 0 && Queue.offerUnsafe(queue, form.idle))
    )))

    onChange()

    /** Sends all that there is of the text. */
    const finish = Effect.gen(function*() {
      yield* caughtUp.await
      if (lacksBeginning()) yield* catchUp()
      const rest = isOther && text.end === 0
        ? encode({ offset: 0, text: "", replaced: true })
        : take(text.end)
      isOther = false
      if (rest !== undefined) yield* Queue.offer(queue, rest)
    })

    yield* Stream.runForEachArray(
      recorded,
      Effect.fnUntraced(function*(events) {
        const newest = events.at(-1)!
        yield* texts.settle(text, newest.revision, newest.status)
        // What replaces the text comes before the event that brought it, whose id says that the reader has it.
        if (text.version !== version && !lacksBeginning() && revision >= 0) {
          const next = take(text.wholeEnd)
          if (next !== undefined) yield* Queue.offer(queue, next)
        }
        for (const event of events) {
          if (event === newest && endsPart(event)) yield* finish
          revision = event.revision
          yield* Queue.offer(queue, form.event(event, { revision, end: isOther ? unknownEnd : end }))
        }
        onChange()
      })
    )
  })

  return LiveReading.of({
    read: Effect.fnUntraced(function*<A>(task: TaskHead, after: Place, form: Form<A>, includesTurn = false) {
      const recorded = yield* watch.events(task, after.revision, includesTurn)
      const cut = Deferred.makeUnsafe<void>()
      const client = makeClient()
      return Stream.callback<A, StoreUnavailable>(
        (queue) =>
          follow(task, after, form, recorded, queue, client, cut).pipe(
            Effect.andThen(Queue.end(queue)),
            Effect.catch((error) => Queue.fail(queue, error))
          ),
        { bufferSize: capacity, strategy: "suspend" }
      ).pipe(
        Stream.interruptWhen(Effect.andThen(Deferred.await(cut), Effect.interrupt))
      )
    })
  })
})
