/** Holds tasks in a state until all of them have reached it and the fault has happened. */
export class Gate {
  readonly #arrived = new Set<string>()
  readonly #opened = Promise.withResolvers<void>()
  #isOpen = false

  get isOpen() {
    return this.#isOpen
  }

  get size() {
    return this.#arrived.size
  }

  /** Reports that a task has reached the state in which it is held. */
  arrive(taskId: string) {
    this.#arrived.add(taskId)
  }

  async pass(taskId: string) {
    this.arrive(taskId)
    await this.#opened.promise
  }

  open() {
    this.#isOpen = true
    this.#opened.resolve()
  }
}
