/** The public interface as any client sees it, of a service with its built-in core. */
import { Effect } from "effect"
import { FetchHttpClient } from "effect/http"
import { assert, describe, it } from "vitest"
import { cases } from "../kit/conformance/Cases.ts"
import { makeProbe } from "../kit/conformance/Probe.ts"
import { requestCases } from "../kit/conformance/RequestCases.ts"
import { mint } from "../kit/Service.ts"
import { use, useDirectory } from "../kit/suite.ts"
import { startSystem } from "../kit/System.ts"

const { service } = await use(startSystem({ CORE_URL: "", DATA_DIR: useDirectory() }))
const probe = await Effect.runPromise(
  makeProbe({
    url: service.url,
    token: await mint("conformer"),
    otherToken: await mint("someone-else"),
    assistant: 1,
    toolsAssistant: 2
  }).pipe(Effect.provide(FetchHttpClient.layer))
)

describe("the public interface", () => {
  it.each([...cases, ...requestCases])("$section: $name", async ({ run }) => {
    assert.isUndefined(await Effect.runPromise(run(probe)))
  })
})
