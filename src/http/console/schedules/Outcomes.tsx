/** Parts of the screens of schedules, of users and operators. */
import type { ScheduleRun, ScheduleState } from "../../client/promise/Types.ts"
import { now, relative } from "../clock.ts"
import { Icon, type IconName } from "../components/Icon.tsx"
import { momentWords } from "./schedules.ts"

const states: Readonly<Record<ScheduleState, readonly [icon: IconName, word: string, style: string]>> = {
  active: ["again", "Active", "completed"],
  paused: ["interrupted", "Paused", "interrupted"],
  ended: ["completed", "Ended", "ended"]
}

export const State = ({ state }: { readonly state: ScheduleState }) => {
  const [icon, word, style] = states[state]
  return (
    <span class={`status status-${style}`}>
      <Icon name={icon} />
      {word}
    </span>
  )
}

const outcomes: Readonly<
  Record<ScheduleRun["outcome"], readonly [icon: IconName, word: string, style: string]>
> = {
  due: ["pending", "Due", "pending"],
  waiting: ["interrupted", "Waits", "interrupted"],
  created: ["completed", "Started", "completed"],
  skipped_overlap: ["canceled", "Left out", "canceled"],
  missed: ["warning", "Missed", "failed"],
  failed: ["failed", "Failed", "failed"]
}

export const outcomeWord = (outcome: ScheduleRun["outcome"]) => outcomes[outcome][1]

export const Outcome = ({ count, outcome }: Pick<ScheduleRun, "count" | "outcome">) => {
  const [icon, word, style] = outcomes[outcome]
  return (
    <span class={`status status-${style}`}>
      <Icon name={icon} />
      {count === 1 ? word : `${word} ${count.toLocaleString("en")} times`}
    </span>
  )
}

/** Moments in words in a zone, and how far away each is. */
export const Moments = ({ moments, timezone }: {
  readonly moments: ReadonlyArray<string>
  readonly timezone: string
}) => (
  <ol class="moments">
    {moments.map((at) => (
      <li key={at}>
        <time dateTime={at} title={`${at} (UTC)`}>{momentWords(at, timezone)}</time>
        <span class="detail">{relative(Date.parse(at), now.value)}</span>
      </li>
    ))}
  </ol>
)
