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

/** Where a visitor was on a screen: how far it was scrolled, and the link that had the focus. */
interface Place {
  readonly y: number
  readonly focus: string | null
}

const isPlace = (state: unknown): state is Place => typeof state === "object" && state !== null && "y" in state

/** The place to return to, until the screen has it. */
let returning: Place | undefined

/** Whether the focus belongs to a link of the screen instead of its heading. */
export const returnsToLink = () => returning?.focus != null

/** Returns to the place, as far as the screen has been loaded. */
export const restore = () => {
  if (returning === undefined) return
  const { focus, y } = returning
  scrollTo(0, y)
  const link = focus === null ? null : document.querySelector<HTMLElement>(`main a[href="${CSS.escape(focus)}"]`)
  link?.focus({ preventScroll: true })
  if (Math.abs(scrollY - y) < 2) returning = undefined
}

/** Pixels at the ends of a list in which an item may be faint. */
const edge = 32

/** Scrolls the list around an item to it. The page stays where it is. */
export const reveal = (item: Element | null | undefined) => {
  const list = item?.parentElement
  if (item == null || list == null) return
  const [one, all] = [item.getBoundingClientRect(), list.getBoundingClientRect()]
  list.scrollLeft += Math.min(0, one.left - edge - all.left) + Math.max(0, one.right + edge - all.right)
  list.scrollTop += Math.min(0, one.top - all.top) + Math.max(0, one.bottom - all.bottom)
}

const leave = () => {
  const focus = document.activeElement?.closest("main a")?.getAttribute("href") ?? null
  history.replaceState({ y: scrollY, focus } satisfies Place, "")
  returning = undefined
}

export const navigate = (to: string, { replace = false } = {}) => {
  if (!replace) leave()
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

/** The query of an address: parameters without a value are left out. */
export const queryOf = (parameters: Readonly<Record<string, string | number | null | undefined>>): string => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value))
  }
  return query.size === 0 ? "" : `?${query}`
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
  history.scrollRestoration = "manual"
  addEventListener("popstate", ({ state }) => {
    returning = isPlace(state) ? state : undefined
    if (returning === undefined) scrollTo(0, 0)
    current.value = new URL(globalThis.location.href)
  })
  document.addEventListener("click", (event) => {
    const link = linkOf(event)
    if (link === undefined) return
    event.preventDefault()
    navigate(link.pathname.slice(base.length) + link.search)
  })
}
