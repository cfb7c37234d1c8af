import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect } from "effect"
import { adapt } from "../postgres/DatabaseClient.ts"

/**
 * The client of a cluster. Its `reserve` opens one of its connections for the locks, on which statements are pipelined, so that a refresh, or the
 * release of many shards, which takes two statements each, does not wait for the round trips of others.
 */
export const layer = (
  { maxConnections, ...options }: PgConnection.Config & { readonly maxConnections: number }
) =>
  PgClient.layerFrom(
    Effect.map(
      PgClient.make({ ...options, multiplex: true, maxConnections: maxConnections - 1 }),
      (client) =>
        Object.assign(client, { reserve: Effect.map(PgConnection.make({ ...options, multiplex: true }), adapt) })
    )
  )
