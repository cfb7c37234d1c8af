/** Evaluates + - * / % ^ and parentheses over decimal numbers by precedence climbing; undefined for anything else. */

type Operator = readonly [precedence: number, apply: (a: number, b: number) => number]

const operators: Readonly<Record<string, Operator>> = {
  "+": [1, (a, b) => a + b],
  "-": [1, (a, b) => a - b],
  "*": [2, (a, b) => a * b],
  "/": [2, (a, b) => a / b],
  "%": [2, (a, b) => a % b],
  // NaN stays NaN, although NaN ** 0 is 1.
  "^": [4, (a, b) => Number.isNaN(a) ? a : a ** b]
}

const maxLength = 1000
const minusPrecedence = 3

export const evaluate = (source: string): number | undefined => {
  const tokens = source.length > maxLength ? [] : source.match(/\d+(?:\.\d+)?|\.\d+|\S/g) ?? []

  const operand = (): number => {
    const token = tokens.shift()
    if (token === "-") return -expression(minusPrecedence)
    if (token !== "(") return Number(token)
    const value = expression(1)
    return tokens.shift() === ")" ? value : Number.NaN
  }

  const expression = (minimum: number): number => {
    let left = operand()
    for (;;) {
      const operator = tokens[0]
      const [precedence = 0, apply] = operators[operator ?? ""] ?? []
      if (apply === undefined || precedence < minimum) return left
      tokens.shift()
      // ^ is right-associative.
      left = apply(left, expression(operator === "^" ? precedence : precedence + 1))
    }
  }

  const value = expression(1)
  return tokens.length === 0 && Number.isFinite(value) ? value : undefined
}
