/** The OpenAPI documents as the service serves them, with all extensions. */
import { Layer } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import * as Docs from "../../src/http/Docs.ts"
import { Extensions } from "../../src/http/ExtensionRoutes.ts"
import { extensions } from "../../src/runtime/loadedExtensions.ts"

const paths = { "openapi.json": "/openapi.json", "openapi.internal.json": "/internal/openapi.json" } as const

export const documents = async () => {
  const { dispose, handler } = HttpRouter.toWebHandler(
    Docs.layer.pipe(
      Layer.provide(Layer.succeed(Extensions, extensions.map(({ routes }) => routes))),
      Layer.provideMerge(HttpServer.layerServices)
    ),
    { disableLogger: true }
  )
  const read = async (path: string) => {
    const response = await handler(new Request(`http://service.test${path}`))
    return `${JSON.stringify(await response.json(), null, 2)}\n`
  }
  const entries = await Promise.all(
    Object.entries(paths).map(async ([name, path]) => [name, await read(path)] as const)
  )
  await dispose()
  return Object.fromEntries(entries)
}
