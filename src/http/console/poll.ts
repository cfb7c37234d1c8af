/** Polls with backoff after failures, and pauses while the tab is hidden. */
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals"
import { useEffect, useMemo } from "preact/hooks"
import { ApiError } from "../client/promise/ApiErrors.ts"
import { backoff } from "../client/promise/Transport.ts"

const retryDelay = { first: 1000, maximum: 30_000 }

/** This tab has been hidden for a minute. */
export const isAway = signal(false)

/** Milliseconds before the next attempt. A `Retry-After` of the service is honoured. */
export const delayAfter = (failures: number, error: unknown): number => {
  const given = error instanceof ApiError ? Number(error.headers.get("retry-after")) * 1000 : 0
  return Math.max(given || 0, backoff(failures - 1, retryDelay))
}

export interface Polled<A> {
  readonly data: A | undefined
  /** The failure of the last attempt; `data` is then older. */
  readonly error: unknown
  /** Milliseconds since the epoch of `data`. */
  readonly at: number
}

export interface Poll<A> {
  readonly state: ReadonlySignal<Polled<A>>
  /** Reads immediately. */
  readonly refresh: () => void
  /** Starts to poll; returns the function that stops it. */
  readonly start: () => () => void
}

/** Polls `intervalOf` milliseconds after each success, in a hidden tab only if `isKept`. */
export const poll = <A>(
  read: (signal: AbortSignal) => PromiseLike<A>,
  intervalOf: (data: A) => number,
  isKept = () => false
): Poll<A> => {
  const state = signal<Polled<A>>({ data: undefined, error: undefined, at: 0 })
  let timer: ReturnType<typeof setTimeout> | undefined
  let current: AbortController | undefined
  let failures = 0

  const run = async () => {
    clearTimeout(timer)
    current?.abort()
    const attempt = current = new AbortController()
    let delay = 0
    try {
      const data = await read(attempt.signal)
      if (attempt.signal.aborted) return
      failures = 0
      state.value = { data, error: undefined, at: Date.now() }
      delay = intervalOf(data)
    } catch (error) {
      if (attempt.signal.aborted) return
      failures++
      state.value = { ...state.peek(), error }
      delay = delayAfter(failures, error)
    }
    if (Number.isFinite(delay)) timer = setTimeout(() => void run(), delay)
  }

  const stop = () => {
    clearTimeout(timer)
    current?.abort()
  }

  return {
    state,
    refresh: () => void run(),
    start: () => {
      const unsubscribe = effect(() => isAway.value && !isKept() ? stop() : untracked(() => void run()))
      return () => {
        unsubscribe()
        stop()
      }
    }
  }
}

/** Polls while the component is shown, anew when a dependency changes. */
export const usePoll = <A>(
  read: (signal: AbortSignal) => PromiseLike<A>,
  intervalOf: (data: A) => number,
  dependencies: ReadonlyArray<unknown>
): Poll<A> => {
  const made = useMemo(() => poll(read, intervalOf), dependencies)
  useEffect(() => made.start(), [made])
  return made
}
