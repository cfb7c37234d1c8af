/**
 * The thread of `Watchdog`. It counts its own ticks since the last turn of the main event loop, so time during which the
 * whole process was suspended does not count. It ends the process by a signal, because a thread has no other way.
 */
import { writeSync } from "node:fs"
import { workerData } from "node:worker_threads"

export interface Watch {
  /** One element, which the main thread increments with every tick of its event loop. */
  readonly turns: Int32Array<SharedArrayBuffer>
  /** Milliseconds between two ticks. */
  readonly tick: number
  /** Ticks without a turn after which the process ends. */
  readonly maxTicks: number
  readonly exitMessage: string
  /** Printed when the signal has no effect. */
  readonly ignoredMessage: string
}

const { exitMessage, ignoredMessage, maxTicks, tick, turns }: Watch = workerData

/** Writes a line to standard error, whose reader may be gone or blocked. */
const print = (line: string) => {
  try {
    writeSync(2, `${line}\n`)
  } catch {
    // There is no other output.
  }
}

const never = new Int32Array(new SharedArrayBuffer(4))
let seen = Atomics.load(turns, 0)
for (let ticks = 0;;) {
  Atomics.wait(never, 0, 0, tick)
  const present = Atomics.load(turns, 0)
  ticks = present === seen ? ticks + 1 : 0
  seen = present
  if (ticks === maxTicks) {
    print(exitMessage)
    process.kill(process.pid, "SIGALRM")
  } else if (ticks === maxTicks + 1) print(ignoredMessage)
}
