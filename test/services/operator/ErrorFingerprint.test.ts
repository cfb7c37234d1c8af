import { assert, describe, it } from "vitest"
import * as ErrorFingerprint from "../../../src/services/operator/ErrorFingerprint.ts"
import { cpuOf } from "../../kit/cpu.ts"

describe("the fingerprint of an error", () => {
  const causes: ReadonlyArray<readonly [fingerprint: string, ...errors: ReadonlyArray<string>]> = [
    [
      "Tool call … timed out after … ms",
      "Tool call call_0c4d1f6a timed out after 30,412 ms",
      "Tool call 7 timed out after 1.5 ms"
    ],
    ["Model … is overloaded", `Model "gpt 4" is overloaded`, "Model 'x y' is overloaded"],
    ["Model “claude-…-sonnet-…” is overloaded", "Model “claude-3-5-sonnet-20250214” is overloaded"],
    ["Tool `search_docs` failed", "Tool `search_docs` failed"],
    ["HTTP 401 from model", "HTTP 401 from model"],
    ["HTTP 429 from model after … tries", "HTTP 429 from model after 3 tries", "HTTP 429 from model after 12 tries"],
    ["HTTP 302 from the proxy", "HTTP 302 from the proxy"],
    ["502 Bad Gateway (… ms)", "502 Bad Gateway (423 ms)", "502 Bad Gateway (500 ms)"],
    ["429: slow down", "429: slow down"],
    ["The backend answered 503", "The backend answered 503"],
    ["Unexpected token at …", "Unexpected token at 423", "Unexpected token at 7"],
    ["Exit code: 137 after … s", "Exit code: 137 after 500 s"],
    ["SQLSTATE 57P01: admin shutdown of …", "SQLSTATE 57P01: admin shutdown of 10.0.0.7"],
    ["Request failed: 401", "Request failed: 401"],
    ["No run …", "No run `a1b2c3d4`", "No run `7f`"],
    ["Assistant … has no configuration …", "Assistant 7 has no configuration `c40e8400-ecae-41d4-a716-446655440000`"],
    ["User … may not read it", "User 'ana' may not read it", "User 'bo' may not read it"],
    ["spawn E2BIG", "spawn E2BIG"],
    ["File … cannot be read", `File "Rechnung-2026-11.pdf" cannot be read`, `File "a.docx" cannot be read`],
    ["Unknown id …", "Unknown id 500e8400-e29b-41d4-a716-446655440000", `Unknown id "${"x".repeat(60)}"`],
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
      assert.isBelow(cpuOf(() => ErrorFingerprint.of(piece.repeat(20_000))), 300, piece)
    }
  })
})
