/** A line of numbers over time, with the same in words. The points are ends of equal periods, the last one the present. */
import { clockTime } from "../clock.ts"
import { zone } from "../preferences.ts"

const width = 240
const height = 40

export interface SparklineProps {
  readonly name: string
  readonly values: ReadonlyArray<number>
  /** Milliseconds since the epoch of the first period. */
  readonly from: number
  /** Seconds of a period. */
  readonly step: number
  readonly isMaximum?: boolean
}

/** As in `failed: 12, most 4 at 10:31`. */
const inWords = ({ from, isMaximum = false, name, step, values }: SparklineProps, zone: string): string => {
  const most = Math.max(0, ...values)
  const total = isMaximum ? most : values.reduce((sum, value) => sum + value, 0)
  if (most === 0) return `${name}: none`
  const at = clockTime(from + values.indexOf(most) * step * 1000, zone).slice(0, 5)
  return isMaximum ? `${name}: most ${most} at ${at}` : `${name}: ${total}, most ${most} at ${at}`
}

export const Sparkline = (props: SparklineProps) => {
  const { values } = props
  const most = Math.max(1, ...values)
  const points = values.map((value, index) =>
    `${(index / Math.max(1, values.length - 1) * width).toFixed(1)},${
      (height - 2 - value / most * (height - 4)).toFixed(1)
    }`
  )
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={inWords(props, zone.value)}
    >
      <polyline points={points.join(" ")} />
    </svg>
  )
}
