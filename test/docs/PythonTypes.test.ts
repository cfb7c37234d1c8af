/** The types of the Python client are Python, whatever the schemas contain: `test:published` checks and runs the whole client. */
import { execFileSync } from "node:child_process"
import { assert, describe, it } from "vitest"
import { hasPython, python } from "../kit/python.ts"
import { literalOf, typedDict, types } from "./pythonTypes.ts"

/** Runs a program, as Python 3.9 does too. */
const run = (program: string) =>
  execFileSync(python, ["-c", program], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

const imports = "from typing import Any, Dict, List, Literal, Optional, Sequence, TypedDict, Union\n"

describe("the types of the Python client", () => {
  it("have Python's literals", () => {
    assert.strictEqual(literalOf(["a\"b", 1, -1]), `Literal["a\\"b", 1, -1]`)
    assert.strictEqual(literalOf([true]), "Literal[True]")
    assert.strictEqual(literalOf([false, null, "true"]), `Literal[False, None, "true"]`)
    assert.strictEqual(literalOf([0.5, 1]), "float")
  })

  it.runIf(hasPython)("are a module that Python loads", () => {
    assert.strictEqual(run(`${types}\nprint(Task.__name__)`), "Task")
  })

  it.runIf(hasPython)("are Python for literals of each type, and for keys that are no names", () => {
    const properties = {
      "none": { type: "null" },
      "yes": { type: "boolean", enum: [true] },
      "either": { enum: [true, false, null, 1, "x", "\u00e9 \\ \" '"] },
      "maybe": { anyOf: [{ type: "boolean", enum: [false] }, { type: "null" }] },
      "half": { type: "number", enum: [0.5] }
    }
    const odd = ["None", "async", "lambda", "match", "1st", "with-hyphen", "with space", "quoted\"", "$ref", "é"]
    const program: Array<string> = []
    const expected: Array<string> = []
    for (const key of odd) {
      const whole = { ...properties, [key]: { type: "string", description: "\\d \"\"\" \"end\"" } }
      for (const required of [[], ["yes"], [key], ["yes", key], Object.keys(whole)]) {
        const name = `Odd${expected.length}`
        program.push(...typedDict(name, { properties: whole, required }), `print(sorted(${name}.__annotations__))`)
        const keys = Object.keys(whole).toSorted().map((each) => `'${each}'`)
        expected.push(`[${keys.join(", ")}]`)
      }
    }
    assert.deepStrictEqual(run([imports, ...program].join("\n")).split("\n"), expected)
  })
})
