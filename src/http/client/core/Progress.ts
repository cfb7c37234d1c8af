/**
 * Reports of a run that goes on: its text as it is written, whole turns, and signs of life. Each run has one event in flight.
 *
 * Text goes as appends to services that have live text, which their answers show by the field `next`: `{type: "progress", append:
 * {index, text}}`, where `index` numbers the appends of the run from 0 and `next` is the index that the service expects. After a gap, and
 * after `next: null` of a node that knows nothing of the run, a whole turn follows with `next_append`. Other services ignore the field,
 * and take the first append for a sign of life. Every service gets the whole turn too, once a second at most: it is what is stored.
 */
import type { Turn } from "../../../domain/Turn.ts"
import { type Address, type Answer, type Events, interval } from "./Events.ts"

/** Milliseconds. */
const turnInterval = 1000
const endGrace = 250
/** UTF-16 units of one append: 64 KiB of text as UTF-8, at most. */
const appendLength = 21_000

/** The first part of a text, which does not end within a surrogate pair. */
const cut = (text: string): string => {
  if (text.length <= appendLength) return text
  const last = text.charCodeAt(appendLength - 1)
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? appendLength - 1 : appendLength)
}

export interface ProgressOptions {
  readonly address: Address
  readonly events: Events
  /** Aborts with the run. */
  readonly signal: AbortSignal
  /** Milliseconds without an event after which a sign of life is sent; undefined sends none. */
  readonly signAfter: number | undefined
  readonly newId: () => string
  /** A turn as it is stored. */
  readonly wholeTurnOf: (turn: Turn) => Turn
  /** The service does not want the run any more. */
  readonly onUnwanted: () => void
}

export class Progress {
  readonly #options: ProgressOptions
  /** Ends what is in flight. */
  readonly #controller = new AbortController()
  /** The last turn, without the text that was added since. */
  #base: Turn | undefined
  #text = ""
  #unsent = ""
  /** The index of the next append. */
  #index = 0
  /** True if the service has live text; undefined until it has answered an append. */
  #isLive: boolean | undefined
  #needsTurn = false
  #hasNewTurn = false
  #turnAt = -Infinity
  #sentAt = performance.now()
  #timer: ReturnType<typeof setTimeout> | undefined
  #inFlight: Promise<void> | undefined
  #hasEnded = false

  constructor(options: ProgressOptions) {
    this.#options = options
    options.signal.addEventListener("abort", () => this.#stop())
    this.#schedule()
  }

  readonly text = (chunk: string) => {
    if (chunk === "" || this.#hasEnded) return
    this.#text += chunk
    if (this.#isLive !== false) this.#unsent += chunk
    this.#hasNewTurn = true
    this.#schedule()
  }

  readonly replace = (turn: Turn) => {
    if (this.#hasEnded) return
    this.#base = turn
    this.#text = ""
    this.#unsent = ""
    this.#hasNewTurn = true
    this.#needsTurn = true
    this.#schedule()
  }

  /** The result so far; undefined if there is none. */
  get turn(): Turn | undefined {
    const { messages, output = [], ...base } = this.#base ?? {}
    if (this.#text === "") return this.#base && this.#options.wholeTurnOf(this.#base)
    const last = output.at(-1)
    const text = last?.type === "text" ? last.text + this.#text : this.#text
    return this.#options.wholeTurnOf({
      ...base,
      output: [...last?.type === "text" ? output.slice(0, -1) : output, { type: "text", text }],
      ...(messages && { messages: [...messages, { role: "assistant", content: this.#text }] })
    })
  }

  /** Ends with the event in flight, which gets a moment: the final event must not wait for an outage. */
  async end(): Promise<void> {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    if (this.#inFlight === undefined) return
    const timer = setTimeout(() => this.#controller.abort(new Error("the run has ended")), endGrace)
    await this.#inFlight
    clearTimeout(timer)
  }

  readonly #stop = () => {
    this.#hasEnded = true
    clearTimeout(this.#timer)
    this.#controller.abort(this.#options.signal.reason)
  }

  #schedule() {
    if (this.#hasEnded || this.#inFlight !== undefined) return
    clearTimeout(this.#timer)
    const { append, sign, turn } = this.#dues
    const due = Math.min(append, sign, turn)
    if (due === Infinity) return
    this.#timer = setTimeout(() => {
      this.#inFlight = this.#step().finally(() => {
        this.#inFlight = undefined
        this.#schedule()
      })
    }, Math.max(0, Math.ceil(due - performance.now())))
  }

  /** An append shows whether the service has live text, so the first text goes as one. */
  get #isAppend() {
    return this.#unsent !== "" && this.#isLive !== false && !this.#needsTurn
  }

  get #isGathered() {
    const { address, events } = this.#options
    return events.isGathering(address.eventsUrl)
  }

  /** The moments, in milliseconds, at which the next turn, append and sign are due. */
  get #dues() {
    const hasTurn = this.#needsTurn || (this.#hasNewTurn && (this.#isLive !== undefined || this.#unsent === ""))
    return {
      turn: hasTurn ? this.#turnAt + turnInterval : Infinity,
      append: this.#isAppend ? this.#sentAt + (this.#isGathered ? 0 : interval) : Infinity,
      sign: this.#sentAt + (this.#options.signAfter ?? Infinity)
    }
  }

  async #step(): Promise<void> {
    const now = performance.now()
    const { append, sign, turn } = this.#dues
    try {
      if (turn <= now) await this.#sendTurn()
      else if (append <= now) await this.#sendAppend()
      else if (sign <= now) await this.#send({})
    } catch {
      // Aborted, by the end or a stop of the run.
    }
  }

  async #sendTurn() {
    const turn = this.turn
    this.#hasNewTurn = false
    this.#needsTurn = false
    this.#turnAt = performance.now()
    // The turn has the text that was to be appended.
    this.#unsent = ""
    const answer = await this.#send({ turn, ...(this.#index > 0 ? { next_append: this.#index } : {}) })
    if (this.#index > 0) this.#note(answer)
  }

  async #sendAppend() {
    const text = cut(this.#unsent)
    this.#unsent = this.#unsent.slice(text.length)
    const answer = await this.#send({ append: { index: this.#index++, text } })
    this.#note(answer)
  }

  #note({ body, verdict }: Answer) {
    if (verdict !== "accepted") return
    const wasKnown = this.#isLive !== undefined
    this.#isLive = "next" in body
    // The first text need not be stored at once where it is live.
    if (this.#isLive && !wasKnown) this.#turnAt = performance.now()
    if (!this.#isLive) this.#unsent = ""
    else if (body["next"] !== this.#index) {
      this.#needsTurn = true
      this.#turnAt = -Infinity
    }
  }

  async #send(fields: object): Promise<Answer> {
    const { address: { eventsUrl, runId, taskId }, events, newId, onUnwanted } = this.#options
    this.#sentAt = performance.now()
    const body = { task_id: taskId, run_id: runId, event_id: newId(), type: "progress", ...fields }
    const answer = await events.send(eventsUrl, body, this.#controller.signal, true)
    if (answer.verdict === "unwanted") onUnwanted()
    return answer
  }
}
