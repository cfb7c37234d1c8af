/** `/healthz` answers 200 while the process lives, `/readyz` while it can do its work. */
import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { Readiness } from "../../services/operations/Readiness.ts"

const alive = HttpServerResponse.jsonUnsafe({ status: "ok" })

export const layer = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const readiness = yield* Readiness
    yield* router.add("GET", "/healthz", alive)
    yield* router.add(
      "GET",
      "/readyz",
      Effect.map(readiness.checks, (found) => {
        const failing = found.filter(({ problem }) => problem !== null)
        const checks = Object.fromEntries(found.map(({ name, problem }) => [name, problem ?? "ok"]))
        return failing.length === 0
          ? HttpServerResponse.jsonUnsafe({ status: "ok", checks })
          : HttpServerResponse.jsonUnsafe(
            { message: `Not ready: ${failing.map(({ name }) => name).join(", ")}`, checks },
            { status: 503 }
          )
      })
    )
  })
)
