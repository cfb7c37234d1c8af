/** Paginated lists: await one page, or iterate over the tasks of all pages. */
import type { PageMeta, TaskSummary } from "./Types.ts"

/** One page of a list, as it is in JSON. */
export interface PageOf<Row> {
  readonly data: ReadonlyArray<Row>
  readonly meta: PageMeta
}

export type TaskPageBody = PageOf<TaskSummary>

type FetchPage = (page: number) => Promise<TaskPageBody>

export class TaskPage implements AsyncIterable<TaskSummary> {
  readonly data: ReadonlyArray<TaskSummary>
  readonly meta: PageMeta
  readonly #fetch: FetchPage

  constructor({ data, meta }: TaskPageBody, fetch: FetchPage) {
    this.data = data
    this.meta = meta
    this.#fetch = fetch
  }

  get hasNextPage(): boolean {
    return this.meta.current_page < this.meta.last_page
  }

  /** The next page, or null after the last one. */
  async nextPage(): Promise<TaskPage | null> {
    return this.hasNextPage ? new TaskPage(await this.#fetch(this.meta.current_page + 1), this.#fetch) : null
  }

  /** The tasks of this and all later pages. A task that moves to the next page meanwhile is yielded once. */
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

/** The result of `list`: await it for the first page, or iterate over it for all tasks. */
export class TaskPages implements Promise<TaskPage>, AsyncIterable<TaskSummary> {
  readonly [Symbol.toStringTag] = "TaskPages"
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

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<TaskPage | B> {
    return this.then(undefined, onRejected)
  }

  finally(onFinally?: (() => void) | null): Promise<TaskPage> {
    return this.then().finally(onFinally)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TaskSummary, void, undefined> {
    yield* await this
  }
}
