/** Numbers over time: a line with axes, whose values a mouse, a finger and the arrow keys read. The points are equal periods. */
import type { Signal } from "@preact/signals"
import { clockTime } from "../clock.ts"
import { zone } from "../preferences.ts"

const width = 240
const height = 72

export interface PlotProps {
  readonly name: string
  readonly values: ReadonlyArray<number>
  /** The top of the scale, which begins at zero and several plots share. */
  readonly top: number
  /** Milliseconds since the epoch of the first period. */
  readonly from: number
  /** Seconds of a period. */
  readonly step: number
  /** Moments of the time scale that are marked, in milliseconds since the epoch. */
  readonly marks: ReadonlyArray<number>
  /** The period that is read, in all plots. */
  readonly cursor: Signal<number | undefined>
}

/** The least of 1, 2 and 5 with zeros that is not below a value. */
export const topOf = (value: number): number => {
  const unit = 10 ** Math.floor(Math.log10(value || 1))
  return [1, 2, 5, 10].map((factor) => factor * unit).find((top) => top >= value) ?? value
}

/** Whether a plot has the focus. Then a mouse that the page moves away under ends nothing. */
const isReadByKeys = () => document.activeElement?.matches(".plot-field input") ?? false

export const Plot = ({ cursor, from, marks, name, step, top, values }: PlotProps) => {
  const last = Math.max(1, values.length - 1)
  const timeOf = (index: number) => clockTime(from + index * step * 1000, zone.value).slice(0, 5)
  const xOf = (index: number) => index / last * width
  const yOf = (value: number) => height - value / top * height
  const inWords = (index: number) => `${timeOf(index)}: ${(values[index] ?? 0).toLocaleString("en")}`
  const at = cursor.value
  const shown = at ?? values.length - 1
  const read = (event: PointerEvent & { readonly currentTarget: HTMLElement }) => {
    const { left, width: all } = event.currentTarget.getBoundingClientRect()
    cursor.value = Math.min(last, Math.max(0, Math.round((event.clientX - left) / all * last)))
  }
  return (
    <div class="plot-area">
      <span class="axis-y">{top.toLocaleString("en")}</span>
      <span class="axis-y">0</span>
      <div class="plot-field">
        <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
          {marks.map((mark) => (mark - from) / step / 1000).filter((index) => index >= 0 && index <= last).map((
            index
          ) => <path key={index} class="mark" d={`M${xOf(index)} 0V${height}`} />)}
          <polyline
            points={values.map((value, index) => `${xOf(index).toFixed(1)},${yOf(value).toFixed(1)}`).join(" ")}
          />
          {at === undefined ? null : <path class="cursor" d={`M${xOf(at)} 0V${height}`} />}
        </svg>
        <input
          type="range"
          min={0}
          max={values.length - 1}
          value={shown}
          aria-label={name}
          aria-valuetext={inWords(shown)}
          onInput={({ currentTarget: { value } }) => cursor.value = Number(value)}
          onPointerMove={read}
          onPointerDown={read}
          onPointerLeave={() => isReadByKeys() || (cursor.value = undefined)}
          onBlur={() => cursor.value = undefined}
        />
      </div>
      <p class="axis-x" aria-hidden="true">
        {at === undefined
          ? [0, last / 2, last].map((index) => <span key={index}>{timeOf(Math.round(index))}</span>)
          : <strong>{inWords(at)}</strong>}
      </p>
    </div>
  )
}
