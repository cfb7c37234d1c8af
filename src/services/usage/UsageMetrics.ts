/** Metrics of usage. A model is a label while there are few: each new one beyond them counts as `other`. */
import { counter, gauge } from "../telemetry/Instruments.ts"
import type { Booked } from "./UsageStore.ts"

const tokens = counter({
  name: "usage.tokens",
  meaning:
    "tokens that this node booked, by assistant, model and kind; `other` stands for what comes after the first 200 pairs",
  labels: ["assistant", "model", "kind"],
  initial: [["other", "other", "input"], ["other", "other", "output"]]
})

export const bookingAge = gauge({
  name: "usage.booking.age",
  unit: "seconds",
  meaning: "time since this node last booked the outbox of usage, or found another node doing so",
  labels: []
})

/** Pairs of assistant and model with series of their own. */
const maxPairs = 200
const pairs = new Set<string>()

const labelsOf = ({ assistantId, model }: Booked): readonly [string, string] => {
  const labels = [String(assistantId), model ?? "unknown"] as const
  const key = labels.join("\n")
  if (pairs.size < maxPairs) pairs.add(key)
  return pairs.has(key) ? labels : ["other", "other"]
}

export const record = (booked: Booked): void => {
  if (booked.inputTokens + booked.outputTokens === 0) return
  const labels = labelsOf(booked)
  tokens.add(booked.inputTokens, ...labels, "input")
  tokens.add(booked.outputTokens, ...labels, "output")
}
