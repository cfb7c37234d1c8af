/** The timeline of observations from outside the service, and the first violation. */
import { Clock, Effect } from "effect"

export class Violation extends Error {
  override readonly name = "Violation"
}

export class Recorder {
  readonly #lines: Array<readonly [millis: number, who: string, what: string]> = []
  #violation: Violation | undefined

  readonly note = (who: string, what: string) =>
    Effect.map(Clock.currentTimeMillis, (millis) => void this.#lines.push([millis, who, what]))

  /** Records a violated invariant. The first one ends the run. */
  readonly violated = (promise: string) =>
    Effect.andThen(
      this.note("VIOLATION", promise),
      Effect.sync(() => void (this.#violation ??= new Violation(promise)))
    )

  get violation(): Violation | undefined {
    return this.#violation
  }

  /** The number of recorded observations. */
  get length(): number {
    return this.#lines.length
  }

  /** One line for each observation: seconds, actor and action. */
  timeline(): string {
    const width = Math.max(...this.#lines.map(([, who]) => who.length))
    return this.#lines
      .map(([millis, who, what]) => `${(millis / 1000).toFixed(3).padStart(9)}  ${who.padEnd(width)}  ${what}`)
      .join("\n")
  }
}
