/** The value below which a share of the values lies; zero without values. */
export const quantile = (values: ReadonlyArray<number>, share: number) =>
  values.toSorted((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0

export const median = (values: ReadonlyArray<number>) => quantile(values, 0.5)
