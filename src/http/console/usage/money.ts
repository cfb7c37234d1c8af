/** Costs in readable form. The service has them as plain decimals. */

/** Large costs to the cent; of small ones two digits that are not zero. */
export const money = (cost: string | null): string => {
  if (cost === null) return "–"
  const value = Number(cost)
  const digits = value === 0 || value >= 0.1 ? 2 : Math.min(1 - Math.floor(Math.log10(value)), 12)
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })
}
