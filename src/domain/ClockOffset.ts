/**
 * Estimates the offset of the database's clock from a node's monotonic clock by samples, and moves the node's time to
 * that offset. All numbers are milliseconds; "local" is a reading of the monotonic clock.
 */

/** An estimate from readings of the remote clock: the true offset is within `uncertainty` of `offset`. */
export interface Sample {
  /** Remote minus local. */
  readonly offset: number
  readonly uncertainty: number
  /** Local time of the reading. */
  readonly at: number
}

/**
 * The remote clock was read at some moment between `sentAt` and `receivedAt`, so half the round trip is the
 * uncertainty.
 */
export const sampleOf = (sentAt: number, remote: number, receivedAt: number): Sample => ({
  offset: remote - (sentAt + receivedAt) / 2,
  uncertainty: (receivedAt - sentAt) / 2,
  at: receivedAt
})

/** The sample with the shortest round trip. */
export const best = (samples: readonly [Sample, ...Array<Sample>]): Sample =>
  samples.reduce((known, sample) => sample.uncertainty < known.uncertainty ? sample : known)

/** Maximum drift between two correct clocks: NTP slews a clock by at most 500 ppm. */
const maxDrift = 0.0005

/** The uncertainty of `sample` at a later local time, which grows by the possible drift. */
export const uncertaintyAt = (sample: Sample, local: number): number =>
  sample.uncertainty + maxDrift * (local - sample.at)

/**
 * The better one of the known sample and a new one. After a slow round trip that is the known sample, unless the new
 * one shows that one of the clocks was set.
 */
export const combine = (known: Sample, sample: Sample): Sample => {
  const uncertainty = uncertaintyAt(known, sample.at)
  const wasSet = Math.abs(sample.offset - known.offset) > sample.uncertainty + uncertainty
  return wasSet || sample.uncertainty <= uncertainty ? sample : known
}

/**
 * The offset that a node applies: linear from `from` at local `begins` to `to` at local `ends`, and `to` after that.
 */
export interface Course {
  readonly from: number
  readonly to: number
  readonly begins: number
  readonly ends: number
}

export const constant = (offset: number): Course => ({ from: offset, to: offset, begins: 0, ends: 0 })

export const offsetAt = ({ begins, ends, from, to }: Course, local: number): number =>
  local >= ends ? to : from + (to - from) * (local - begins) / (ends - begins)

/** The time over which a correction is spread. */
const slewTime = 10_000
/** A jump ahead of at most this is slewed, so that no delay is shortened by more than 2.5 %. */
export const maxSlewAhead = 250
/** A jump back of at most this is slewed, so that time runs at half its speed or faster. */
export const maxSlewBack = 5000

/**
 * The course to a new offset. Time never goes back, except by a step when the remote clock was set back by more than
 * `maxSlewBack`: a node that followed slowly would end the tasks of newly started nodes too early by that amount.
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
