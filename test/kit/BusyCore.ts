/** A processing core with room for so many runs, which answers 429 to others, and works on each for some time. */
import { complete, interrupt, report, ScriptedCore, type StartedRun } from "./ScriptedCore.ts"

export class BusyCore extends ScriptedCore {
  room: number
  /** Milliseconds. */
  takes: number
  /** The `Retry-After` of refusals. */
  retryAfter: string | undefined
  refusal = 429
  /** What a run does at its end; it is completed by default. */
  end: (run: StartedRun) => Promise<unknown> = (run) => complete(run)

  readonly live = new Set<string>()
  readonly ended = new Set<string>()
  /** Runs in the order in which they were taken. */
  readonly taken: Array<StartedRun> = []
  /** `performance.now()` of each refusal. */
  readonly refusals: Array<number> = []
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
      this.most = Math.max(this.most, this.live.size)
      void this.work(run)
      return 202
    }
  }

  private async work(run: StartedRun) {
    await report(run, { type: "processing" }).catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, this.takes))
    // The place is free before the event tells so. A run whose end the service has learned is not begun again.
    this.live.delete(run.run_id)
    this.ended.add(run.run_id)
    await this.end(run).catch(() => this.ended.delete(run.run_id))
  }

  /** Interrupts a first run, and completes a resumed one. */
  readonly interruptOnce = (run: StartedRun) => run.resume === null ? interrupt(run) : complete(run)
}
