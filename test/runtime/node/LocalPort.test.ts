import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { freePorts } from "../../../src/runtime/node/LocalPort.ts"

it.live("free ports that are found together are different ones", () =>
  Effect.map(freePorts(64), (ports) => assert.strictEqual(new Set(ports).size, 64)))
