/** The user's active tasks, which every screen shows in part: the used slots, the inbox and its number. */
import type { TaskPage } from "../client/promise/TaskPages.ts"
import type { TaskStatus } from "../client/promise/Types.ts"
import { client } from "./api.ts"
import { isAway, poll } from "./poll.ts"
import { notifications } from "./preferences.ts"

/** The service's own limit of a page; users have five active tasks unless an operator allows more. */
const maxShown = 100

/** Milliseconds between polls of a list: with live tasks, and without. */
export const listInterval = { live: 3000, quiet: 15_000 }

const activeStatuses: ReadonlyArray<TaskStatus> = ["pending", "processing", "interrupted"]

export const intervalOf = ({ data }: TaskPage): number =>
  data.some(({ status }) => activeStatuses.includes(status)) ? listInterval.live : listInterval.quiet

export const active = poll(
  (signal) =>
    client.tasks.list({ status: activeStatuses, per_page: maxShown, include: ["excerpt"], maxRetries: 0, signal }),
  (page) => isAway.peek() ? listInterval.quiet : intervalOf(page),
  () => notifications.value === "on"
)

export const interrupted = () => active.state.value.data?.data.filter(({ status }) => status === "interrupted") ?? []
