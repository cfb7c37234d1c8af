/** A core that follows each task's plan. It retries every report, and can report out of order, twice and late. */
import { randomUUID } from "node:crypto"
import type { ServerResponse } from "node:http"
import { pause } from "../kit/pause.ts"
import { report, ScriptedCore, type StartedRun, turnOf } from "../kit/ScriptedCore.ts"
import { happens, shuffled, upTo } from "./chance.ts"
import type { Gate } from "./Gate.ts"
import { type Plan, planOf } from "./Plan.ts"
import { Recorder } from "./Recorder.ts"

interface Event {
  readonly event_id: string
  readonly type: string
  readonly accepted?: true
}

const eventOf = (event: { readonly type: string } & Readonly<Record<string, unknown>>): Event => ({
  event_id: randomUUID(),
  ...event
})

const processing = () => eventOf({ type: "processing" })
const progress = () => eventOf({ type: "progress", turn: turnOf("so far") })
const completed = (text = "done") => eventOf({ type: "completed", turn: turnOf(text) })
const interrupted = () =>
  eventOf({ type: "interrupted", state: "kept", tool_calls: [{ id: "c", name: "look", arguments: {} }] })

/** The first events of a run. Half of the runs report their acceptance together with `next`. */
const opening = ({ number }: Plan, next: Event): ReadonlyArray<Event> =>
  number % 2 === 0 ? [processing(), next] : [{ ...next, accepted: true }]

export class Core extends ScriptedCore {
  recorder = new Recorder()
  readonly gates = new Map<string, Gate>()
  /** The most runs that it may have at a time. */
  limit = Infinity
  /** The runs that it has. One whose end it reports has left: the report may arrive before its answer. */
  readonly live = new Set<string>()
  readonly #begun = new Set<string>()
  /** The events earlier for each task, to be repeated. */
  readonly #reported = new Map<string, Array<{ readonly run: StartedRun; readonly event: Event }>>()
  #isGarbled = false

  override onStart = (run: StartedRun, response: ServerResponse) => this.#start(run, response)

  override onStop = (runId: string) => {
    // Some stop requests fail at the first attempt.
    if (happens(0.2)) return 503
    this.live.delete(runId)
    this.recorder.stopped.add(runId)
    return 202
  }

  /**
   * From now on sends events twice, in any order and after their run has ended; repeats all earlier ones immediately.
   */
  garble() {
    this.#isGarbled = true
    for (const earlier of this.#reported.values()) for (const { event, run } of earlier) void this.#report(run, event)
  }

  ungarble() {
    this.#isGarbled = false
    this.#reported.clear()
  }

  async #start(run: StartedRun, response: ServerResponse) {
    this.recorder.offered(run)
    if (this.#begun.has(run.run_id)) return 202
    const plan = planOf(run)
    const gate = this.gates.get(plan.gate)
    const isHeld = plan.hold === (run.resume === null ? "dispatching" : "resuming")
    if (isHeld && gate !== undefined && !gate.isOpen) {
      gate.arrive(run.task_id)
      if (Math.floor(plan.number / 2) % 2 === 0) return 503
      await gate.pass(run.task_id)
    }
    if (plan.pace > 0 && happens(0.05)) return 503
    // The node has closed the connection, so the run is not accepted.
    if (response.destroyed) return 503
    if (!this.#begun.has(run.run_id)) {
      this.#begun.add(run.run_id)
      this.live.add(run.run_id)
      if (this.live.size > this.limit) {
        this.recorder.broke("too many runs", run.run_id, `${this.live.size} of ${this.limit}`)
      }
      void this.#work(run, plan, gate)
    }
    return 202
  }

  async #work(run: StartedRun, plan: Plan, gate: Gate | undefined) {
    await upTo(plan.pace)
    if (run.resume !== null) {
      // Events of the previous run must not be applied.
      if (this.#isGarbled) void this.#reportOld(run)
      return this.#reportAll(run, plan, [processing(), progress(), completed()])
    }
    if (plan.hold === "pending") await gate?.pass(run.task_id)
    if (plan.interrupts) {
      const continues = await this.#reportAll(run, plan, opening(plan, interrupted()))
      if (continues && plan.hold === "interrupted") gate?.arrive(run.task_id)
      return
    }
    if (plan.hold === "pending") return this.#reportAll(run, plan, [...opening(plan, progress()), completed()])
    if (!await this.#reportAll(run, plan, [processing()])) return
    if (plan.ends === "never") return gate?.arrive(run.task_id)
    if (plan.hold === "processing") await gate?.pass(run.task_id)
    await this.#reportAll(run, plan, [progress(), completed()])
  }

  /** Returns whether the run continues. */
  async #reportAll(run: StartedRun, { pace }: Plan, events: ReadonlyArray<Event>) {
    if (this.#isGarbled) return this.#reportGarbled(run, events)
    for (const event of events) {
      if (!await this.#report(run, event)) return false
      await upTo(pace)
    }
    return true
  }

  async #reportGarbled(run: StartedRun, events: ReadonlyArray<Event>) {
    const twice = shuffled([...events, ...events])
    await Promise.all(twice.map((event) => this.#report(run, event)))
    void pause(300).then(() => twice.map((event) => this.#report(run, event)))
    return true
  }

  async #reportOld(run: StartedRun) {
    const [first] = this.#reported.get(run.task_id) ?? []
    if (first === undefined) return
    await Promise.all(
      [completed("of an older run"), progress(), processing()].map((event) => this.#report(first.run, event))
    )
  }

  /** Reports an event until a node responds; returns whether the run continues. */
  async #report(run: StartedRun, event: Event) {
    if (event.type === "completed" || event.type === "interrupted") this.live.delete(run.run_id)
    const earlier = this.#reported.get(run.task_id) ?? []
    if (!earlier.some((before) => before.event === event)) this.#reported.set(run.task_id, [...earlier, { run, event }])
    for (;;) {
      const newest = this.recorder.runsOf(run.task_id).at(-1) ?? run.run_id
      try {
        const { body, status } = await report(run, event)
        if (status === 200 && body["applied"] === true) this.recorder.applied(run, event, newest !== run.run_id)
        if (status < 500) return status === 200
      } catch {
        // No node is reachable.
      }
      await upTo(100)
    }
  }
}
