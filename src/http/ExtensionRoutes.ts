/** What extensions add to the routes of the service, besides their handlers. */
import { Context } from "effect"
import type { HttpApiGroup } from "effect/http-api"
import type { ErrorCodes } from "./contract/ErrorCodes.ts"
import type { Node } from "./contract/OpaqueSchemas.ts"

export interface Route {
  readonly method: string
  /** As the router has it, such as `/things/:id`. One that ends with `/*` is also the address without the end. */
  readonly path: string
}

export interface ExtensionRoutes {
  /** The codes of its errors that the core does not have, for the reference. */
  readonly errorCodes?: ErrorCodes
  readonly routes: ReadonlyArray<Route>
  /** Whether the extension itself answers other methods of its paths. */
  readonly answersAllMethods?: boolean
  /** Headers of requests that preflights of other origins list, even when they do not ask for them. */
  readonly corsHeaders?: ReadonlyArray<string>
  /** Paths that web pages of other origins may not call, with those below them. */
  readonly sameOrigin?: ReadonlyArray<string>
  /** The beginnings of the routes that both the public and the internal listener serve. */
  readonly ofBothListeners?: ReadonlyArray<string>
  /** What it adds to the document of the internal interface. `selecting` is the path of a list of tasks with the parameters of all links. */
  readonly documented?: {
    readonly group: HttpApiGroup.Constraint
    readonly securitySchemes?: Node
    readonly selecting?: string
  }
  /** Its calls of the internal interface: an `RpcGroup`, whose type only its handlers and clients know. */
  readonly rpc?: { readonly requests: ReadonlyMap<string, unknown> }
  /** What it adds to the document of clients. */
  readonly publicGroup?: HttpApiGroup.Constraint
  /** Its `TaskLink` in the documents: the value of `include` that adds a field to a task, and the parameter that selects tasks. */
  readonly linkParameter?: {
    readonly name: string
    readonly includes: string
    readonly selects?: {
      readonly description: string
      readonly schema: { readonly type: "string"; readonly format?: string }
    }
  }
}

export const Extensions = Context.Reference<ReadonlyArray<ExtensionRoutes>>(
  "async-task-service/http/ExtensionRoutes/Extensions",
  { defaultValue: () => [] }
)
