/** A processing core with room for so many runs, which answers 429 to others, and works on each for some time. */
import { Predicate } from "effect"
import { pause } from "./pause.ts"
import { complete, interrupt, report, ScriptedCore, type StartedRun } from "./ScriptedCore.ts"

export class BusyCore extends ScriptedCore {
  room: number
  /** Milliseconds. */
  takes: number
  /** Until then no run ends. */
  held: Promise<void> = Promise.resolve()
  /** The `Retry-After` of refusals. */
  retryAfter: string | undefined
  refusal = 429
  /** The end of a run; it is completed by default. */
  end: (run: StartedRun) => Promise<unknown> = (run) => complete(run)

  readonly live = new Set<string>()
  readonly ended = new Set<string>()
  /** Runs in the order in which they were taken. */
  readonly taken: Array<StartedRun> = []
  /** `performance.now()` of each refusal, of each run that was taken, and of each that has left its place. */
  readonly refusals: Array<number> = []
  readonly takenAt: Array<number> = []
  readonly leftAt: Array<number> = []
  most = 0

  constructor(room: number, takes: number) {
    super()
    this.room = room
    this.takes = takes
    this.onStart = (run, response) => {
      if (!this.live.has(run.run_id) && !this.ended.has(run.run_id) && this.live.size >= this.room) {
        this.refusals.push(performance.now())
        if (this.retryAfter !== undefined) response.setHeader("retry-after", this.retryAfter)
        return this.refusal
      }
      if (this.live.has(run.run_id) || this.ended.has(run.run_id)) return 202
      this.live.add(run.run_id)
      this.taken.push(run)
      this.takenAt.push(performance.now())
      this.most = Math.max(this.most, this.live.size)
      void this.work(run)
      return 202
    }
  }

  /** Repeats an event until it is answered, as each core does: for a time, since a test may have ended. */
  private async tell(send: () => Promise<unknown>) {
    for (let tries = 0; tries < 300; tries++) {
      const answer = await send().catch(() => undefined)
      if (answer !== undefined && !(Predicate.hasProperty(answer, "status") && Number(answer.status) >= 500)) return
      await pause(100)
    }
  }

  private async work(run: StartedRun) {
    await report(run, { type: "processing" }).catch(() => {})
    await Promise.all([pause(this.takes), this.held])
    // The place is free before the event tells so. A run that has ended is not begun again.
    this.live.delete(run.run_id)
    this.leftAt.push(performance.now())
    this.ended.add(run.run_id)
    await this.tell(() => this.end(run))
  }

  /** Begins the record of places anew. */
  forget() {
    this.takenAt.length = this.leftAt.length = 0
  }

  /** Milliseconds for which each place was free, of so many places that runs waited for. */
  freeTimes(places: number) {
    return this.takenAt.slice(places).map((at, index) => at - this.leftAt[index]!)
  }

  /** Interrupts a first run, and completes a resumed one. */
  readonly interruptOnce = (run: StartedRun) => run.resume === null ? interrupt(run) : complete(run)
}
