import { assert, describe, it } from "vitest"
import { Timestamp } from "../../../src/domain/Timestamp.ts"
import * as Lateness from "../../../src/services/telemetry/Lateness.ts"

const at = (seconds: number) => Timestamp.make(seconds * 1_000_000)

describe("lateness", () => {
  it("is the maximum of the current and the previous minute", () => {
    const lateness = Lateness.make()
    lateness.note(at(10), at(50))
    assert.strictEqual(lateness.worst(at(119)), 40_000)
    assert.strictEqual(lateness.worst(at(120)), 0)
  })

  it("keeps its maximum when a note of the previous minute arrives late", () => {
    const lateness = Lateness.make()
    lateness.note(at(10), at(50))
    assert.strictEqual(lateness.worst(at(61)), 40_000)
    lateness.note(at(58), at(59))
    assert.strictEqual(lateness.worst(at(62)), 40_000)
  })
})
