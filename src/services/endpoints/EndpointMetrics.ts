/** Metrics of webhook endpoints. */
import { counter, gauge, histogram } from "../telemetry/Instruments.ts"
import { DisabledReason } from "./Endpoint.ts"

export const attempts = histogram({
  name: "webhook.endpoint.attempt.duration",
  meaning: "duration of attempts to webhook endpoints, by outcome",
  labels: ["outcome"],
  initial: [["delivered"]]
}, [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15])

export const lateness = histogram({
  name: "webhook.endpoint.attempt.lateness",
  meaning: "time from the moment an attempt to an endpoint was due to its start",
  labels: [],
  initial: [[]]
}, [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 600])

export const abandoned = counter({
  name: "webhook.endpoint.attempts.abandoned",
  meaning: "attempts to endpoints without a recorded outcome when their lease expired",
  labels: [],
  initial: [[]]
})

export const disabled = counter({
  name: "webhook.endpoint.disabled",
  meaning: "endpoints that this node disabled, by reason: gone (a response of 410) or failing (no success for 72 h)",
  labels: ["reason"],
  initial: [["gone"], ["failing"]]
})

export const dropped = counter({
  name: "webhook.endpoint.deliveries.dropped",
  meaning:
    "deliveries that this node gave up, by reason: backlog (the pending ones were larger than WEBHOOK_ENDPOINT_BACKLOG) or too_old (their endpoint was disabled or unread for 7 days)",
  labels: ["reason"],
  initial: [["backlog"], ["too_old"]]
})

export const endpoints = gauge({
  name: "webhook.endpoints",
  meaning: "webhook endpoints by state: enabled, failing, or why they are disabled; refreshed every minute",
  labels: ["state"],
  initial: ["enabled", "failing", ...DisabledReason.literals].map((state) => [state] as const)
})

export const overdue = gauge({
  name: "webhook.endpoint.overdue",
  unit: "seconds",
  meaning:
    "time since the oldest pending delivery of an enabled endpoint was due, 0 when none is; refreshed every minute",
  labels: [],
  initial: [[]]
})
