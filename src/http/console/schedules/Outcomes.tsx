/** Parts of the screens of schedules, of users and operators. */
import type { ScheduleRun, ScheduleState, TaskStatus } from "../../client/promise/Types.ts"
import { now, relative } from "../clock.ts"
import { wordOf } from "../components/Basics.tsx"
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

/** A moment: the status of its task, or what became of the moment without one. */
export interface Outcome {
  readonly scheduled_for: string
  readonly outcome: ScheduleRun["outcome"] | TaskStatus
}

/** A task that failed and a moment for which none could be made are both failures. */
const wordOfOutcome = (outcome: Outcome["outcome"]) =>
  outcome in outcomes ? outcomes[outcome as ScheduleRun["outcome"]][1] : wordOf(outcome as TaskStatus)

/** What became of the newest moments, the oldest first. */
export const Strip = ({ moments }: { readonly moments: ReadonlyArray<Outcome> }) => {
  const words = moments.map(({ outcome }) => wordOfOutcome(outcome))
  const counts = [...Map.groupBy(words, (word) => word)].map(([word, all]) => `${all.length} ${word.toLowerCase()}`)
  return moments.length === 0 ? null : (
    <span class="outcomes">
      <span class="outcome-strip" role="img" aria-label={`The last ${moments.length}: ${counts.join(", ")}`}>
        {moments.map(({ outcome, scheduled_for: at }, index) => (
          <i key={at} class={`outcome-${outcome}`} title={`${words[index]}, ${at}`} />
        )).toReversed()}
      </span>
      <span class="detail">{counts.join(", ")}</span>
    </span>
  )
}

export const RunOutcome = ({ count, outcome }: Pick<ScheduleRun, "count" | "outcome">) => {
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
