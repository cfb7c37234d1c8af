/** Pages of a list: one can be awaited, and all tasks of all pages iterated. */
import type { TaskPageBody, TaskSummary } from "./Types.ts"

type FetchPage = (page: number) => Promise<TaskPageBody>

export class TaskPage implements AsyncIterable<TaskSummary> {
  readonly data: ReadonlyArray<TaskSummary>
  readonly meta: TaskPageBody["meta"]
  readonly #fetch: FetchPage

  constructor({ data, meta }: TaskPageBody, fetch: FetchPage) {
    this.data = data
    this.meta = meta
    this.#fetch = fetch
  }

  get hasNextPage(): boolean {
    return this.meta.current_page < this.meta.last_page
  }

  /** The page after this one, or null. */
  async nextPage(): Promise<TaskPage | null> {
    return this.hasNextPage ? new TaskPage(await this.#fetch(this.meta.current_page + 1), this.#fetch) : null
  }

  /** The tasks of this page and of all after it. One that a new task pushed to the next page comes once. */
  async *[Symbol.asyncIterator](): AsyncGenerator<TaskSummary, void, undefined> {
    yield* this.data
    let previous = new Set(this.data.map(({ uuid }) => uuid))
    for (let page = await this.nextPage(); page !== null; page = await page.nextPage()) {
      const seen = previous
      yield* page.data.filter(({ uuid }) => !seen.has(uuid))
      previous = new Set(page.data.map(({ uuid }) => uuid))
    }
  }
}

/** What `list` returns: await it for the first page, or iterate it for all tasks. */
export class TaskPages implements PromiseLike<TaskPage>, AsyncIterable<TaskSummary> {
  readonly #first: () => Promise<TaskPage>
  #loading: Promise<TaskPage> | undefined

  constructor(fetch: FetchPage, page: number) {
    this.#first = async () => new TaskPage(await fetch(page), fetch)
  }

  // oxlint-disable-next-line unicorn/no-thenable -- awaiting a list is its point
  then<A = TaskPage, B = never>(
    onFulfilled?: ((page: TaskPage) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null
  ): Promise<A | B> {
    this.#loading ??= this.#first()
    return this.#loading.then(onFulfilled, onRejected)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TaskSummary, void, undefined> {
    yield* await this
  }
}
