/**
 * Reads a task as a stream of its events with its text: what was written meanwhile is joined, so that a reader gets at most 20 texts a
 * second. A reader costs its place in the text and what its connection has not taken.
 */
import { type Cause, Context, Effect, Layer, Option, Queue, type Scope, Semaphore, Stream } from "effect"
import { textOfToken } from "../../domain/json/tables.ts"
import * as Limits from "../../domain/Limits.ts"
import type { StoreUnavailable } from "../../domain/StoreUnavailable.ts"
import { isTerminal, type TaskHead } from "../../domain/Task.ts"
import type { TooManyWaiting } from "../../domain/TaskErrors.ts"
import * as TurnParts from "../../domain/TurnParts.ts"
import { TaskStore } from "../store/tasks/TaskStore.ts"
import { TaskWatch, type WatchedEvent } from "../tasks/TaskWatch.ts"
import { makeClient, Turns } from "../tasks/Turns.ts"
import type { Entry } from "./LiveEntries.ts"
import { borderOf, keptUnits, type Part } from "./LiveText.ts"
import { LiveTexts, textShape } from "./LiveTexts.ts"

/** One event or text waits for a connection: what is written meanwhile is joined. */
const capacity = 1

/** The place of a reader: the last revision that it has, or -1, and the units of the text that it has, or `unknownEnd`. */
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
  readonly text: (event: TextEvent, place: Place, text: Pick<Entry, "runId" | "hasAppends">) => A
  readonly event: (event: WatchedEvent, place: Place) => A
  /** Sent while nothing else is. */
  readonly idle: A
}

interface Options<A> {
  /** Comes first. */
  readonly beginning?: A
  /** Events have the text of the turn too. */
  readonly includesTurn?: boolean
  /** Ends the stream: `Stream.interruptWhen` would pass each text on by another fiber. */
  readonly ended?: Effect.Effect<unknown>
}

export class LiveReading extends Context.Service<LiveReading, {
  /**
   * The events after a place, as `TaskWatch.events`, with the text behind it. All text comes before the event that ends the task or
   * interrupts it. A reader that is too slow is cut off: the fiber that calls this, which sends the response, is interrupted.
   */
  readonly read: <A>(
    task: TaskHead,
    after: Place,
    form: Form<A>,
    options?: Options<A>
  ) => Effect.Effect<Stream.Stream<A, StoreUnavailable>, TooManyWaiting>
}>()("async-task-service/services/live/LiveReading") {
  static readonly layer = Layer.effect(LiveReading, Effect.suspend(() => make))
}

/** The event that was encoded last of a text. */
interface Encoded {
  readonly form: unknown
  readonly version: number
  readonly from: number
  readonly to: number
  readonly revision: number
  readonly replaced: boolean
  readonly value: unknown
}

const endsPart = ({ status }: WatchedEvent) => isTerminal(status) || status === "interrupted"

const make = Effect.gen(function*() {
  const texts = yield* LiveTexts
  const watch = yield* TaskWatch
  const store = yield* TaskStore
  const turns = yield* Turns
  const encoded = new WeakMap<Entry, Encoded>()

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
    cut: () => void
  ): Effect.fn.Return<void, StoreUnavailable, Scope.Scope> {
    const text = yield* texts.open(task)
    const client = makeClient()
    let { end, revision } = after
    let { version } = text
    /** Whether what the reader has is no beginning of this text. */
    let isOther = end > 0 && (revision < text.base || end > text.end)
    /** Whether the reader has a text without its beginning, which was not stored. */
    let lacksStart = false
    /** The end of the text when the connection did not take what it was given, for the first time. */
    let stalledAt: number | undefined
    /** Whether one that waits for the connection, or for the store, sends the next event or text. */
    let isBusy = false
    const turnstile = Semaphore.makeUnsafe(1)
    const alone = <B, E, R>(effect: Effect.Effect<B, E, R>) =>
      turnstile.withPermit(Effect.ensuring(
        Effect.suspend(() => {
          isBusy = true
          return effect
        }),
        Effect.sync(() => {
          isBusy = false
        })
      ))

    const encode = ({ offset, text: part }: Part): A => {
      const replaced = isOther
      isOther = false
      end = offset + part.length
      const last = encoded.get(text)
      const isSame = last !== undefined && last.form === form.text && last.version === version && last.to === end &&
        last.from === offset && last.revision === revision && last.replaced === replaced
      // The form is the one that has made it.
      if (isSame) return last.value as A
      const event = { offset, text: part, ...(replaced ? { replaced } as const : {}) }
      const value = form.text(event, { revision, end }, text)
      encoded.set(text, { form: form.text, version, from: offset, to: end, revision, replaced, value })
      return value
    }
    const offer = (value: A) =>
      Effect.tap(Queue.offer(queue, value), () =>
        Effect.sync(() => {
          stalledAt = undefined
        }))

    /** A text that is another one since the reader got its part. */
    const compare = () => {
      if (version === text.version) return
      version = text.version
      lacksStart = false
      isOther ||= end > 0
    }
    const lacksBeginning = () => text.offset > (isOther ? 0 : end)
    /** The next part of what is kept, up to `to`; undefined if the reader has all. */
    const take = (to: number): A | undefined => {
      const from = isOther ? 0 : end
      if (from >= to) return undefined
      const part = text.part(from, Math.min(to, from + keptUnits + 1))
      return encode({ ...part, text: part.text.slice(0, borderOf(part.text, keptUnits)) })
    }

    /** The beginning that is not kept any more, from the stored turn as far as that has it. */
    const readBeginning = Effect.fnUntraced(function*() {
      const outline = Option.getOrUndefined(yield* store.outline(task.uuid))
      if (outline !== undefined) yield* texts.settle(text, outline.revision)
      const whole = outline === undefined ? undefined : yield* readWhole(client, outline)
      compare()
      if (!lacksBeginning()) return
      const reach = text.offset
      if (whole === undefined || !text.agrees({ offset: 0, text: whole })) {
        if (lacksStart && end >= reach) {
          isOther = false
          return
        }
        isOther = true
        lacksStart = true
        return yield* offer(encode(text.tail(text.wholeEnd)))
      }
      lacksStart = false
      for (let at = isOther ? 0 : end; at < reach && version === text.version; at = end) {
        const part = whole.slice(at, borderOf(whole, Math.min(reach, at + keptUnits)))
        client.taken += part.length
        yield* offer(encode({ offset: at, text: part }))
        yield* Effect.sleep(Limits.textInterval)
      }
      compare()
    }, Effect.scoped)
    /** A reader that is slow while others wait for the memory is cut off. */
    const tooSlow = Effect.suspend(() => turns.awaitSlow(client)).pipe(
      Effect.andThen(Effect.sync(cut)),
      Effect.andThen(Effect.never)
    )
    const catchUp = Effect.suspend(() => {
      compare()
      return lacksBeginning() ? Effect.asVoid(Effect.raceFirst(readBeginning(), tooSlow)) : Effect.void
    })

    const behind = yield* Queue.sliding<void>(1)
    const onChange = () => {
      // The id of a text has a revision from which on the reader has this one.
      if (revision < text.base) return
      const isStalled = Queue.sizeUnsafe(queue) > 0
      if (isStalled || isBusy) {
        if (!isStalled) stalledAt = undefined
        else if (text.end - (stalledAt ??= text.end) > Limits.unreadText) return cut()
        if (!isBusy) texts.tellLater(text)
        return
      }
      stalledAt = undefined
      compare()
      if (lacksBeginning()) return Queue.offerUnsafe(behind, undefined)
      const next = take(text.wholeEnd)
      if (next === undefined) return
      Queue.offerUnsafe(queue, next)
      if (end < text.wholeEnd) texts.tellLater(text)
    }
    const follower = { onChange, end: () => isOther ? Infinity : end }
    yield* Effect.acquireRelease(
      Effect.sync(() => void text.followers.add(follower)),
      () => Effect.sync(() => void text.followers.delete(follower))
    )
    yield* Effect.forkScoped(
      Effect.forever(Effect.tap(Effect.andThen(Queue.take(behind), alone(catchUp)), () => Effect.sync(onChange))).pipe(
        Effect.catch((error) => Queue.fail(queue, error))
      )
    )
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(
      Effect.sleep(Limits.keepAliveInterval),
      Effect.sync(() => Queue.sizeUnsafe(queue) === 0 && Queue.offerUnsafe(queue, form.idle))
    )))
    if (revision >= task.revision) onChange()

    /** Sends all that there is of the text. */
    const finish = Effect.gen(function*() {
      compare()
      isOther ||= lacksStart
      do yield* catchUp
      while (lacksBeginning())
      for (let next = take(text.end); next !== undefined; next = take(text.end)) yield* offer(next)
      if (isOther) yield* offer(encode({ offset: 0, text: "" }))
    })

    yield* Stream.runForEachArray(
      recorded,
      (events) =>
        Effect.tap(
          alone(Effect.gen(function*() {
            const newest = events.at(-1)!
            for (const event of events) {
              if (event.type === "ToolResultsSubmitted") texts.resume(text, event.revision)
            }
            yield* texts.settle(text, newest.revision)
            for (const event of events) {
              compare()
              if (event === newest && endsPart(event)) yield* finish
              revision = event.revision
              yield* offer(form.event(event, { revision, end: isOther ? unknownEnd : end }))
            }
          })),
          () => Effect.sync(onChange)
        )
    )
  })

  return LiveReading.of({
    read: Effect.fnUntraced(function*<A>(
      task: TaskHead,
      after: Place,
      form: Form<A>,
      { beginning, ended = Effect.never, includesTurn = false }: Options<A> = {}
    ) {
      const recorded = yield* watch.events(task, after.revision, includesTurn)
      // A connection that takes nothing does not ask the stream for more: the request itself is interrupted.
      const request = yield* Effect.withFiber(Effect.succeed)
      const cut = () => request.interruptUnsafe()
      return Stream.callback<A, StoreUnavailable>(
        (queue) => {
          if (beginning !== undefined) Queue.offerUnsafe(queue, beginning)
          return Effect.raceFirst(follow(task, after, form, recorded, queue, cut), ended).pipe(
            Effect.andThen(Queue.end(queue)),
            Effect.catch((error) => Queue.fail(queue, error))
          )
        },
        { bufferSize: capacity, strategy: "suspend" }
      )
    })
  })
})
