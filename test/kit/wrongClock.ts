/**
 * Preloaded into a process to shift its wall clock by the milliseconds in the file `WALL_CLOCK_ERROR`; SIGUSR2 reloads the
 * file. The monotonic clock is not changed.
 */
import { readFileSync } from "node:fs"

const file = process.env["WALL_CLOCK_ERROR"] ?? ""
const read = () => Number(readFileSync(file, "utf8"))

const Right = Date
let error = read()

class Wrong extends Right {
  static override now() {
    return Right.now() + error
  }

  constructor(...given: Array<number>) {
    super(...(given.length === 0 ? [Wrong.now()] : given) as [number])
  }
}

globalThis.Date = Wrong as DateConstructor
Object.defineProperty(performance, "timeOrigin", { value: performance.timeOrigin + error })
process.on("SIGUSR2", () => {
  error = read()
})
