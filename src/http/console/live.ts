/** Follows one task by its events, and its text as it is written, while this tab is visible. */
import { effect, type ReadonlySignal, signal, untracked } from "@preact/signals"
import type { Task, TaskEvent } from "../client/promise/Types.ts"
import { client } from "./api.ts"
import { announce } from "./messages.ts"
import { isAway, type Poll, poll, type Polled } from "./poll.ts"
import { readTask } from "./readTask.ts"

/** Milliseconds after which a hidden tab stops its polls and streams. */
const hiddenTimeout = 60_000
/** Milliseconds between two reads of a task that changes. */
const readInterval = 500
/** Milliseconds between two states of a text that grows, and between two parts of it that are spoken. */
const textInterval = { shown: 100, spoken: 5000 }
/** Characters that are spoken at a time; more is only shown. */
const maxSpoken = 1000
/** Characters of a growing text; more is shown when the task has ended. */
const maxWritten = 1_000_000
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
  /** The text of the answer, as far as it is written. */
  readonly text: ReadonlySignal<string>
  readonly refresh: () => void
  readonly start: () => () => void
}

/** The text that grows, shown in steps. Whole words of it are spoken. */
const growingText = () => {
  const shown = signal("")
  let written = ""
  let spoken = 0
  let showing: ReturnType<typeof setTimeout> | undefined
  let speaking: ReturnType<typeof setTimeout> | undefined
  const speak = () => {
    speaking = undefined
    const end = Math.max(written.lastIndexOf(" "), written.lastIndexOf("\n")) + 1
    if (end > spoken) announce(written.slice(Math.max(spoken, end - maxSpoken), end))
    spoken = Math.max(spoken, end)
  }
  const show = () => {
    showing = undefined
    shown.value = written
    if (written.length > spoken) speaking ??= setTimeout(speak, textInterval.spoken)
  }
  const showSoon = () => {
    showing ??= setTimeout(show, textInterval.shown)
  }
  return {
    shown,
    write: (part: string) => {
      if (written.length < maxWritten) written += part
      showSoon()
    },
    forget: () => {
      written = ""
      spoken = 0
      showSoon()
    },
    stop: () => {
      clearTimeout(showing)
      clearTimeout(speaking)
    }
  }
}

/** Follows the events of a task and reads the task after them, at most twice a second. */
export const followTask = (uuid: string): LiveTask => {
  const events = signal<ReadonlyArray<TaskEvent>>([])
  const received: Array<TaskEvent> = []
  const text = growingText()
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

  const onEvent = (event: TaskEvent) => {
    received.push(event)
    if (received.length > 2 * maxEvents) received.splice(0, maxEvents)
    showSoon()
  }

  /** All events come again, and the text from its beginning. */
  const follow = async (signal: AbortSignal) => {
    received.length = 0
    text.forget()
    try {
      for await (const part of client.tasks.text(uuid, { signal, onEvent, onReplaced: text.forget })) text.write(part)
    } catch {
      // Stopped, or refused: the read is refused too and shows the error.
    }
  }

  return {
    task: reading.state,
    events,
    text: text.shown,
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
        text.stop()
        stopReading()
      }
    }
  }
}
