/** Follows one task by its events while this tab is visible. */
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals"
import type { Task, TaskEvent } from "../client/promise/Types.ts"
import { client, readTask } from "./api.ts"
import { isAway, type Poll, poll, type Polled } from "./poll.ts"

/** Milliseconds after which a hidden tab stops its polls and streams. */
const hiddenTimeout = 60_000
/** Milliseconds between two reads of a task that changes. */
const readInterval = 500
/** Events of one task that are kept; the oldest are dropped. */
const maxEvents = 5000

export const start = () => {
  let timer: ReturnType<typeof setTimeout> | undefined
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer)
    if (document.hidden) timer = setTimeout(() => isAway.value = true, hiddenTimeout)
    else isAway.value = false
  })
}

export interface LiveTask {
  readonly task: ReadonlySignal<Polled<Task>>
  readonly events: ReadonlySignal<ReadonlyArray<TaskEvent>>
  readonly refresh: () => void
  readonly start: () => () => void
}

/** Follows the events of a task and reads the task after them, at most twice a second. */
export const followTask = (uuid: string): LiveTask => {
  const events = signal<ReadonlyArray<TaskEvent>>([])
  const received: Array<TaskEvent> = []
  let etag: string | null = null
  const reading: Poll<Task> = poll(async (signal) => {
    const version = await readTask(uuid, etag, signal)
    const known = version?.task ?? reading.state.peek().data
    if (known === undefined) throw new Error("The task has no content")
    etag = version?.etag ?? etag
    return known
  }, () => Infinity)

  let readAt = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  const show = () => {
    timer = undefined
    readAt = Date.now()
    events.value = received.slice(-maxEvents)
    reading.refresh()
  }
  const showSoon = () => {
    timer ??= setTimeout(show, Math.max(0, readAt + readInterval - Date.now()))
  }

  const follow = async (signal: AbortSignal) => {
    try {
      for await (const event of client.tasks.events(uuid, { signal, after: received.at(-1)?.revision ?? -1 })) {
        received.push(event)
        if (received.length > 2 * maxEvents) received.splice(0, maxEvents)
        showSoon()
      }
    } catch {
      // Stopped, or refused: the read is refused too and shows the error.
    }
  }

  return {
    task: reading.state,
    events,
    refresh: showSoon,
    start: () => {
      const stopReading = reading.start()
      let stream: AbortController | undefined
      const unsubscribe = effect(() => {
        stream?.abort()
        if (isAway.value) return
        const { signal } = stream = new AbortController()
        untracked(() => void follow(signal))
      })
      return () => {
        unsubscribe()
        stream?.abort()
        clearTimeout(timer)
        stopReading()
      }
    }
  }
}
