/** The expressions of the alert rules and the metrics in them. */
import { parse } from "yaml"

export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: { readonly summary: string }
}

export const rulesOf = (text: string): ReadonlyArray<Rule> => {
  const { groups }: { readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }> } = parse(text)
  return groups.flatMap(({ rules }) => rules)
}

const comparisons: Readonly<Record<string, (value: number, bound: number) => boolean>> = {
  "==": (value, bound) => value === bound,
  "!=": (value, bound) => value !== bound,
  ">": (value, bound) => value > bound,
  ">=": (value, bound) => value >= bound,
  "<": (value, bound) => value < bound,
  "<=": (value, bound) => value <= bound
}

/** Whether an expression fires when all that is left of its comparison has the value. */
export const firesAt = ({ expr }: Pick<Rule, "expr">, value: number): boolean => {
  // The labels of a metric contain comparisons too.
  const [, , operator = "", bound] = /^(.*?) (==|!=|>=?|<=?) ([\d.]+)$/.exec(expr.replaceAll(/\{[^}]*\}/g, "")) ?? []
  const holds = comparisons[operator]
  if (holds === undefined) throw new Error(`no comparison with a number at the end of ${expr}`)
  return holds(value, Number(bound))
}

/** Without `up`, which Prometheus itself provides. */
export const expressionsOf = (text: string) =>
  rulesOf(text).map(({ expr }) => expr).filter((expr) => !expr.startsWith("up"))

/** The Prometheus names of the metrics in an expression. */
export const metricsOf = (expression: string): ReadonlyArray<string> =>
  (expression.replaceAll(/\{[^}]*\}|\[[^\]]*\]/g, "").replaceAll(/\bby \([^)]*\)/g, "").match(
    /[a-z]+(?:_[a-z0-9]+)+/g
  ) ?? [])
    .filter((name) => name !== "histogram_quantile")
    .map((name) => name.replace(/_(bucket|count|sum)$/, ""))
