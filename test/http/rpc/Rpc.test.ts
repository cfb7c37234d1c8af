/** Calls of the internal interface, in memory. */
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { createTestService } from "../../../src/runtime/testing/createTestService.ts"

let service: Awaited<ReturnType<typeof createTestService>>

beforeAll(async () => {
  service = await createTestService()
})

afterAll(() => service.close())

const call = async (tag: string, payload: unknown) => {
  const response = await service.fetch(`${service.url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${service.internalToken}` },
    body: JSON.stringify({ _tag: "Request", id: "1", tag, payload, headers: [] })
  })
  return JSON.parse(await response.text()).exit
}

describe("Operations", () => {
  it("returns the number of tasks in each status, also under the former name", async () => {
    const { value } = await call("Operations.stats", null)
    assert.deepStrictEqual(value, {
      counts: { pending: 0, processing: 0, interrupted: 0, completed: 0, failed: 0, canceled: 0 },
      next_deadline: null
    })
    assert.deepStrictEqual((await call("Operations.standing", null)).value, value)
  })

  it("undrains a drained node, also under the former name", async () => {
    for (const undrain of ["Operations.undrain", "Operations.rebalance"]) {
      assert.isTrue((await call("Operations.drain", null)).value.members[0].drained)
      assert.isFalse((await call(undrain, null)).value.members[0].drained, undrain)
    }
  })
})

describe("Tasks.create", () => {
  const create = (payload: object) => call("Tasks.create", { sub: "ann", ...payload })
  const task = { assistant_id: 1, input: [{ type: "text", text: "hello" }] }

  it("accepts a valid body", async () => {
    assert.strictEqual((await create({ task })).value.status, "pending")
  })

  it("reports invalid fields of the body by their paths in the body", async () => {
    for (
      const [body, field] of [
        [{ ...task, assistant_id: 0 }, "assistant_id"],
        [{ ...task, input: [{ type: "sound" }] }, "input.0.type"],
        [1, "body"],
        [null, "body"],
        [undefined, "task"]
      ] as const
    ) {
      const { cause: [{ error }] } = await create({ task: body })
      assert.deepStrictEqual([error._tag, Object.keys(error.errors)], ["InvalidRequest", [field]])
      assert.strictEqual(error.message, `${field}: ${error.errors[field][0]}`)
    }
  })
})
