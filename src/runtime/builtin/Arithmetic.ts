/** Evaluates + - * / % ^ and parentheses over decimal numbers by precedence climbing; undefined for anything else. */

type Operator = {
  readonly precedence: number
  readonly rightToLeft?: true
  readonly apply: (a: number, b: number) => number
}

const operators: Readonly<Record<string, Operator>> = {
  "+": { precedence: 1, apply: (a, b) => a + b },
  "-": { precedence: 1, apply: (a, b) => a - b },
  "*": { precedence: 2, apply: (a, b) => a * b },
  "/": { precedence: 2, apply: (a, b) => a / b },
  "%": { precedence: 2, apply: (a, b) => a % b },
  "^": { precedence: 4, rightToLeft: true, apply: (a, b) => a ** b }
}

const maxLength = 1000
const minusPrecedence = 3

export const evaluate = (source: string): number | undefined => {
  if (source.length > maxLength || !/\d/.test(source) || !/^[\d\s.()+*/%^-]+$/.test(source)) return undefined
  const tokens = source.match(/\d+(?:\.\d+)?|\.\d+|[()+*/%^-]/g) ?? []
  if (tokens.join("") !== source.replace(/\s+/g, "")) return undefined
  let position = 0

  const operand = (): number => {
    const token = tokens[position++]
    if (token === "-") return -expression(minusPrecedence)
    if (token === "(") {
      const value = expression(1)
      return tokens[position++] === ")" ? value : Number.NaN
    }
    return token === undefined ? Number.NaN : Number(token)
  }

  const expression = (minimum: number): number => {
    let left = operand()
    for (;;) {
      const operator = operators[tokens[position] ?? ""]
      if (operator === undefined || operator.precedence < minimum) return left
      position++
      left = operator.apply(left, expression(operator.precedence + (operator.rightToLeft === true ? 0 : 1)))
    }
  }

  const value = expression(1)
  return position === tokens.length && Number.isFinite(value) ? value : undefined
}
