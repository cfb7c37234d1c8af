import { Duration, Result } from "effect"
import { assert, describe, it } from "vitest"
import type { ValidationFailed } from "../../../src/http/contract/Errors.ts"
import { decodeEventsQuery, decodeListQuery, decodeTaskQuery } from "../../../src/http/handlers/Query.ts"

describe("the query of a task", () => {
  it("waits as long as it says, and less than the 60 s after which proxies give up", () => {
    const waitOf = (wait: string) => Duration.toSeconds(Result.getOrThrow(decodeTaskQuery({ wait })).wait)
    assert.deepStrictEqual(["1", "54", "55", "56", "60"].map(waitOf), [1, 54, 55, 55, 55])
    assert.isTrue(Result.isFailure(decodeTaskQuery({ wait: "61" })))
  })
})

describe("a bracket form of a parameter", () => {
  it.each([
    [decodeTaskQuery, "wait[]"],
    [decodeTaskQuery, "include[]"],
    [decodeEventsQuery, "include[0]"],
    [decodeListQuery, "include[]"],
    [decodeListQuery, "page[a]"],
    [decodeListQuery, "per_page[]"]
  ])("that has none is an error: %o, %s", (decode, name) => {
    const decoded: Result.Result<unknown, ValidationFailed> = decode({ [name]: "1" })
    assert.deepStrictEqual(Result.isFailure(decoded) ? Object.entries(decoded.failure.errors) : [], [
      [name.replace(/\[.*/, ""), [`${name} is not a form of this parameter`]]
    ])
  })
})

describe("the query of a list", () => {
  it.each([
    [{ page: "99999999999999999999" }, "page", "Expected an integer between 1 and 9007199254740991"],
    [{ page: "9007199254740992" }, "page", "Expected an integer between 1 and 9007199254740991"],
    [{ page: "" }, "page", "Expected an integer between 1 and 9007199254740991"],
    [{ per_page: "101" }, "per_page", "Expected an integer between 1 and 100"],
    [{ q: " " }, "q", "Expected one text of 1 to 200 characters"],
    [{ q: "x".repeat(201) }, "q", "Expected one text of 1 to 200 characters"],
    [{ q: "\u0000" }, "q", "Expected one text of 1 to 200 characters"],
    [{ q: "\ud800" }, "q", "Expected one text of 1 to 200 characters"],
    [{ q: ["a", "b"] }, "q", "Expected one text of 1 to 200 characters"],
    [{ "q[a]": "b" }, "q", "Expected one text of 1 to 200 characters"],
    [{ include: "request" }, "include", "Expected one or more of metadata, excerpt, waiting_on, assistant"],
    [{ assistant_id: "0" }, "assistant_id", "Expected an integer between 1 and 9007199254740991"],
    [{ assistant_id: ["1", "2"] }, "assistant_id", "Expected an integer between 1 and 9007199254740991"],
    [{ "assistant_id[]": "1" }, "assistant_id", "Expected an integer between 1 and 9007199254740991"],
    [{ from: "2026-11-23" }, "from", "Expected a moment in ISO 8601 with its offset"],
    [{ to: "2026-02-30T00:00:00Z" }, "to", "Expected a moment in ISO 8601 with its offset"],
    [{ status: "" }, "status", "Expected one or more of pending, processing, interrupted, completed, failed, canceled"]
  ])("refuses %o with the values that are allowed", (query, field, message) => {
    const decoded = decodeListQuery(query)
    assert.deepStrictEqual(Result.isFailure(decoded) ? decoded.failure.errors : {}, { [field]: [message] })
  })

  it("counts the characters of a search, not their UTF-16 units", () => {
    const text = "😀".repeat(200)
    assert.strictEqual(Result.getOrThrow(decodeListQuery({ q: text })).text, text)
    assert.isTrue(Result.isFailure(decodeListQuery({ q: `${text}x` })))
  })

  it("takes the largest page", () => {
    const page = Number.MAX_SAFE_INTEGER
    assert.deepStrictEqual(
      decodeListQuery({ page: String(page) }),
      Result.succeed({
        statuses: [],
        page,
        perPage: 25,
        metadata: null,
        included: new Set(),
        text: null,
        assistantId: null,
        from: null,
        to: null,
        selections: []
      })
    )
  })
})
