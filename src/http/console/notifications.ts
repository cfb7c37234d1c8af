/** Notifications of the browser while the tab is hidden, for users who want them: a task asks something, or has ended. */
import { effect } from "@preact/signals"
import type { TaskSummary } from "../client/promise/Types.ts"
import { active } from "./active.ts"
import { client } from "./api.ts"
import { wordOf } from "./components/Basics.tsx"
import { notify } from "./messages.ts"
import { notifications } from "./preferences.ts"
import { navigate } from "./Router.ts"

export const isSupported = "Notification" in globalThis

/** The choice of the account menu. The browser asks for its permission when it is switched on. */
export const choice = {
  get value() {
    return isSupported && Notification.permission === "granted" ? notifications.value : "off"
  },
  set value(wanted: string) {
    notifications.value = "off"
    if (wanted === "off") return
    void Notification.requestPermission().then((permission) => {
      if (permission === "granted") notifications.value = "on"
      else notify("The browser does not allow notifications of this page")
    })
  }
}

const show = ({ excerpt, status, uuid }: TaskSummary) => {
  const title = status === "interrupted" ? "A task asks you something" : `Task ${wordOf(status).toLowerCase()}`
  const shown = new Notification(title, { body: excerpt ?? uuid, tag: uuid })
  shown.addEventListener("click", () => {
    focus()
    navigate(status === "interrupted" ? `/inbox?task=${uuid}` : `/tasks/${uuid}`)
    shown.close()
  })
}

/** Newest tasks among which one that has ended is looked for. */
const searched = 25

/** Watches the active tasks. Returns the function that stops it. */
export const start = () => {
  let before: ReadonlyMap<string, TaskSummary> | undefined
  return effect(() => {
    const page = active.state.value.data
    if (page === undefined) return
    const after = new Map(page.data.map((task) => [task.uuid, task]))
    const known = before
    before = after
    if (known === undefined || !document.hidden || choice.value === "off") return
    for (const task of after.values()) {
      if (task.status === "interrupted" && known.get(task.uuid)?.status !== "interrupted") show(task)
    }
    const gone = new Set([...known.keys()].filter((uuid) => !after.has(uuid)))
    if (gone.size === 0) return
    client.tasks.list({ per_page: searched, include: ["excerpt"], maxRetries: 0 }).then(
      ({ data }) => data.filter(({ uuid }) => gone.has(uuid)).forEach(show),
      () => {}
    )
  })
}
