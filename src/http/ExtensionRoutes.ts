/** Additions of extensions to the routes of the service, besides their handlers. */
import { Context, type Schema } from "effect"
import type { HttpApiGroup } from "effect/http-api"
import type { Rpc } from "effect/rpc"
import type { ErrorCodes } from "./contract/ErrorCodes.ts"
import type { Node } from "./contract/OpaqueSchemas.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- schemas of any types, which are invariant
type AnyCodec = Schema.Codec<any, any>

/** A call of any types, whose payload and results need no services to be read and written. */
export interface AnyCall extends Rpc.Any {
  readonly payloadSchema: AnyCodec
  readonly successSchema: AnyCodec
  readonly errorSchema: AnyCodec
}

export interface Route {
  readonly method: string
  /** As the router has it, such as `/things/:id`. One that ends with `/*` is also the address without the end. */
  readonly path: string
}

/** A group of documented routes, `HttpApiGroup.make("notes")`. */
type Group = HttpApiGroup.Constraint & { readonly endpoints: Readonly<Record<string, Route>> }

export interface ExtensionRoutes {
  /** The codes of its errors that the core does not have: `{ note_not_found: [404, "The task has no note."] }`. */
  readonly errorCodes?: ErrorCodes
  /** Its routes that `publicGroup` and `documented` do not have: `[{ method: "GET", path: "/hello" }]`. */
  readonly routes?: ReadonlyArray<Route>
  /** The extension itself answers other methods of its paths. */
  readonly answersAllMethods?: boolean
  /** Headers of requests that preflights of other origins list, even when they do not ask for them. */
  readonly corsHeaders?: ReadonlyArray<string>
  /** Paths that web pages of other origins may not call, with those below them. */
  readonly sameOrigin?: ReadonlyArray<string>
  /** The beginnings of the routes that both the public and the internal listener serve. */
  readonly ofBothListeners?: ReadonlyArray<string>
  /** Its part of the document of the internal interface: `{ group: OperatorUsageGroup }`. `selecting` is the path of a list of tasks with the parameters of all `taskField`s. */
  readonly documented?: {
    readonly group: Group
    readonly securitySchemes?: Node
    readonly selecting?: string
  }
  /** Its calls of the internal interface, an `RpcGroup`: `UsageRpc`. */
  readonly rpc?: { readonly requests: ReadonlyMap<string, AnyCall> }
  /** Its part of the document of clients: `UsageGroup`. */
  readonly publicGroup?: Group
  /** The name under which the console has screens of it: `"usage"`. */
  readonly screens?: string
  /** The names of its actions in the audit, by which the console filters it. */
  readonly auditActions?: ReadonlyArray<string>
  /** It knows operators, so the console can have screens for them. */
  readonly operators?: boolean
  /**
   * Its `TaskLink` in that document: the field that a value of `include` adds to a task, and the parameter of lists that selects tasks.
   * `{ name: "usage", includes: "`usage`: the consumption of the task.", schema: TaskUsageView }`
   */
  readonly taskField?: {
    readonly name: string
    readonly includes: string
    readonly schema: Schema.Top
    readonly parameter?: {
      readonly selects: string
      readonly schema: { readonly type: "string"; readonly format?: string }
    }
  }
}

/** All routes of an extension. */
export const routesOf = ({ documented, publicGroup, routes = [] }: ExtensionRoutes): ReadonlyArray<Route> => [
  ...[publicGroup, documented?.group].flatMap((group) => group === undefined ? [] : Object.values(group.endpoints)),
  ...routes
]

export const Extensions = Context.Reference<ReadonlyArray<ExtensionRoutes>>(
  "async-task-service/http/ExtensionRoutes/Extensions",
  { defaultValue: () => [] }
)
