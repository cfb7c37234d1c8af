/** Metrics of schedules. */
import { counter, histogram } from "../telemetry/Instruments.ts"
import type { Outcome } from "./Schedule.ts"

const outcomes = ["created", "skipped_overlap", "missed", "failed"] as const satisfies ReadonlyArray<Outcome>

export const firings = counter({
  name: "schedule.firings",
  meaning: "moments of schedules that this node completed, by outcome; each moment that was missed counts",
  labels: ["outcome"],
  initial: outcomes.map((outcome) => [outcome] as const)
})

export const lateness = histogram({
  name: "schedule.lateness",
  meaning: "time from the moment of a schedule to the creation of its task at the first attempt",
  labels: [],
  initial: [[]]
}, [0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60])
