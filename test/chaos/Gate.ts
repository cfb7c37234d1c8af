/** Where tasks are held in a state, until all of them are there and the fault has struck. */
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

  /** Tells that a task is in the state that it is to be held in. */
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
