/** The way through numbered pages, newest first. */
import { query, setQuery } from "../Router.ts"

export interface PageMeta {
  readonly current_page: number
  readonly last_page: number
  readonly total: number
}

export const chosenPage = () => Math.max(1, Math.trunc(Number(query.value.get("page") ?? 1)) || 1)

export const Pages = ({ many, meta: { current_page: page, last_page: last, total }, one }: {
  readonly meta: PageMeta
  readonly one: string
  readonly many: string
}) => (
  <nav class="pages" aria-label="Pages">
    <span>{total === 1 ? `1 ${one}` : `${total.toLocaleString("en")} ${many}`}</span>
    {last <= 1 ? null : (
      <>
        <button
          type="button"
          class="button"
          disabled={page <= 1}
          onClick={() => setQuery("page", page <= 2 ? undefined : String(page - 1))}
        >
          Newer
        </button>
        <span>Page {page} of {last}</span>
        <button type="button" class="button" disabled={page >= last} onClick={() => setQuery("page", String(page + 1))}>
          Older
        </button>
      </>
    )}
  </nav>
)
