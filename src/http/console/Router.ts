/** Routes below `/console`, on the History API. The query string of a screen is its filter. */
import { computed, signal } from "@preact/signals"

const base = "/console"
const current = signal(new URL(globalThis.location.href))

/** The first screen: that of users, if the page serves them. */
export const home = signal("/tasks")
/** The path below `/console`. */
export const path = computed(() => current.value.pathname.slice(base.length).replace(/\/+$/, "") || home.value)
/** Whether the screen is one of operators, who have a session of their own. */
export const isOps = computed(() => /^\/ops(\/|$)/.test(path.value))
export const query = computed(() => current.value.searchParams)

/** The address of a screen, given by its path and query. */
export const href = (to: string) => base + to

export const navigate = (to: string, { replace = false } = {}) => {
  history[replace ? "replaceState" : "pushState"](null, "", href(to))
  current.value = new URL(globalThis.location.href)
  if (!replace) scrollTo(0, 0)
}

/** Changes one part of the query; undefined removes it. */
export const setQuery = (name: string, value: string | undefined, options?: { readonly replace?: boolean }) => {
  const next = new URLSearchParams(query.value)
  if (value === undefined) next.delete(name)
  else next.set(name, value)
  navigate(`${path.value}${next.size === 0 ? "" : `?${next}`}`, options)
}

const linkOf = (event: MouseEvent) => {
  if (
    event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey
  ) {
    return undefined
  }
  const link = event.target instanceof Element ? event.target.closest("a") : null
  const isOurs = link?.origin === location.origin && /^\/console(\/|$)/.test(link.pathname)
  return isOurs && link.target === "" && !link.hasAttribute("download") && link.hash === "" ? link : undefined
}

/** Links of the console change the screen without loading the page again. */
export const start = () => {
  addEventListener("popstate", () => {
    current.value = new URL(globalThis.location.href)
  })
  document.addEventListener("click", (event) => {
    const link = linkOf(event)
    if (link === undefined) return
    event.preventDefault()
    navigate(link.pathname.slice(base.length) + link.search)
  })
}
