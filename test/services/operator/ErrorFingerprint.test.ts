import { assert, describe, it } from "vitest"
import * as ErrorFingerprint from "../../../src/services/operator/ErrorFingerprint.ts"

describe("the fingerprint of an error", () => {
  const causes: ReadonlyArray<readonly [fingerprint: string, ...errors: ReadonlyArray<string>]> = [
    [
      "Tool call … timed out after … ms",
      "Tool call call_0c4d1f6a timed out after 30,412 ms",
      "Tool call 7 timed out after 1.5 ms"
    ],
    [
      "Model … is overloaded",
      `Model "gpt 4" is overloaded`,
      "Model “claude” is overloaded",
      "Model 'x y' is overloaded"
    ],
    ["User … doesn't have the file …/report", "User a.b+c@shop.example doesn't have the file 00417/report"],
    ["connect ECONNREFUSED …", "connect ECONNREFUSED 10.0.17.3:5432", "connect ECONNREFUSED 127.0.0.1:80"],
    ["انتهت مهلة … ثانية", "انتهت مهلة 30 ثانية", "انتهت مهلة ٤٥ ثانية"],
    ["Task exceeded maximum execution time (…)", "Task exceeded maximum execution time (60s)"],
    ["", ""]
  ]

  it("is the same for all errors of a cause, and differs between causes", () => {
    for (const [fingerprint, ...errors] of causes) {
      for (const error of errors) assert.strictEqual(ErrorFingerprint.of(error), fingerprint)
    }
    assert.notStrictEqual(ErrorFingerprint.of("Insufficient balance"), ErrorFingerprint.of("Token revoked"))
  })

  it("makes a pattern whose own signs are escaped", () => {
    assert.strictEqual(ErrorFingerprint.patternOf("100%_ \\ of … failed"), "100\\%\\_ \\\\ of % failed")
  })

  it("costs time in proportion to the error", () => {
    for (const piece of ["a", "'", "\"", "…", "1.", "-", "a-", "@"]) {
      const at = performance.now()
      ErrorFingerprint.of(piece.repeat(20_000))
      assert.isBelow(performance.now() - at, 300, piece)
    }
  })
})
