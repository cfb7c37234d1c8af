/** Counts what each holder has in use. A holder without any takes no memory. */
export class Counts {
  readonly #counts = new Map<string, number>()

  of(holder: string): number {
    return this.#counts.get(holder) ?? 0
  }

  holders(): MapIterator<string> {
    return this.#counts.keys()
  }

  add(holder: string): void {
    this.#counts.set(holder, this.of(holder) + 1)
  }

  remove(holder: string): void {
    const count = this.of(holder)
    if (count > 1) this.#counts.set(holder, count - 1)
    else this.#counts.delete(holder)
  }
}
