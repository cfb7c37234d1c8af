/**
 * Estimates the offset of the database's clock from a node's monotonic clock by samples. All numbers are milliseconds; "local" is a
 * reading of the monotonic clock.
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
