/**
 * How far the database's clock is ahead of a node's monotonic clock, from samples of it, and how a node's time follows that
 * offset. All numbers are milliseconds; "local" is a reading of the monotonic clock.
 */

/** What one or more readings of the remote clock say: the true offset is within `uncertainty` of `offset`. */
export interface Sample {
  /** Remote less local. */
  readonly offset: number
  readonly uncertainty: number
  /** Local time of the reading. */
  readonly at: number
}

/** The remote clock was read at some moment between `sentAt` and `receivedAt`, so half the round trip is the uncertainty. */
export const sampleOf = (sentAt: number, remote: number, receivedAt: number): Sample => ({
  offset: remote - (sentAt + receivedAt) / 2,
  uncertainty: (receivedAt - sentAt) / 2,
  at: receivedAt
})

/** The sample with the shortest round trip. */
export const best = (samples: readonly [Sample, ...Array<Sample>]): Sample =>
  samples.reduce((known, sample) => sample.uncertainty < known.uncertainty ? sample : known)

/** The bound on how fast two sound clocks drift apart: NTP slews a clock by 500 ppm at most. */
const maxDrift = 0.0005

/** What `sample` is worth at a later local time. */
export const uncertaintyAt = (sample: Sample, local: number): number =>
  sample.uncertainty + maxDrift * (local - sample.at)

/**
 * The better of what is known and a new sample: after a slow round trip that is what is known, unless the sample shows
 * that one of the clocks was set.
 */
export const combine = (known: Sample, sample: Sample): Sample => {
  const uncertainty = uncertaintyAt(known, sample.at)
  const wasSet = Math.abs(sample.offset - known.offset) > sample.uncertainty + uncertainty
  return wasSet || sample.uncertainty <= uncertainty ? sample : known
}

/** The offset that a node applies: from `from` at local `begins` evenly to `to` at local `ends`, and `to` from then on. */
export interface Course {
  readonly from: number
  readonly to: number
  readonly begins: number
  readonly ends: number
}

export const constant = (offset: number): Course => ({ from: offset, to: offset, begins: 0, ends: 0 })

export const offsetAt = ({ begins, ends, from, to }: Course, local: number): number =>
  local >= ends ? to : from + (to - from) * (local - begins) / (ends - begins)

/** A correction is spread over as long as this. */
const slewTime = 10_000
/** A jump ahead of up to this is slewed, so that no delay is shortened by more than a fortieth. */
export const maxSlewAhead = 250
/** A jump back of up to this is slewed: time goes on at half its speed at least. */
export const maxSlewBack = 5000

/**
 * The course to a new offset. Time never goes back, except by a step when the remote clock was set back by more than
 * `maxSlewBack`: nodes that did not follow soon would end the tasks of those that start anew by this much too early.
 */
export const steer = (
  course: Course,
  to: number,
  local: number
): { readonly course: Course; readonly step: number } => {
  const from = offsetAt(course, local)
  const change = to - from
  return change > maxSlewAhead || change < -maxSlewBack
    ? { course: constant(to), step: change }
    : { course: { from, to, begins: local, ends: local + slewTime }, step: 0 }
}
