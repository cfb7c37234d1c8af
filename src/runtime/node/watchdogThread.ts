/**
 * The thread of `Watchdog`. It counts its own ticks since the main thread last turned, so the time for which the whole
 * process was suspended does not count. Nothing but a signal ends the process from here.
 */
import { writeSync } from "node:fs"
import { workerData } from "node:worker_threads"

export interface Watch {
  /** The main thread adds to its one element whenever its event loop turns. */
  readonly turns: Int32Array<SharedArrayBuffer>
  /** Milliseconds between two ticks. */
  readonly tick: number
  /** Ticks without a turn that end the process. */
  readonly patience: number
  readonly lastWords: string
  /** What is said when the signal has no effect. */
  readonly unheard: string
}

const { lastWords, patience, tick, turns, unheard } = workerData as Watch

/** What reads standard error may be gone, or full. */
const say = (line: string) => {
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // There is no one else to tell.
  }
}

const never = new Int32Array(new SharedArrayBuffer(4))
let seen = Atomics.load(turns, 0)
for (let ticks = 0;;) {
  Atomics.wait(never, 0, 0, tick)
  const present = Atomics.load(turns, 0)
  ticks = present === seen ? ticks + 1 : 0
  seen = present
  if (ticks === patience) {
    say(lastWords)
    process.kill(process.pid, "SIGALRM")
  } else if (ticks === patience + 1) say(unheard)
}
