/** The operators' REST interface, its sessions and its history. */
import { Config, Duration, Effect, Layer } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import * as Operator from "../../../http/operator/Operator.ts"
import { errorCodes, OperatorApi, OperatorGroup, securitySchemes } from "../../../http/operator/OperatorApi.ts"
import * as OperatorAuthorization from "../../../http/operator/OperatorAuthorization.ts"
import { TaskEndedByView } from "../../../http/operator/OperatorSchemas.ts"
import { ShowsContent } from "../../../http/operator/OperatorSettings.ts"
import * as Audit from "../../../services/operator/Audit.ts"
import { BulkActions } from "../../../services/operator/Bulk.ts"
import * as BulkRunner from "../../../services/operator/BulkRunner.ts"
import { BulkStore } from "../../../services/operator/BulkStore.ts"
import * as EndedBy from "../../../services/operator/EndedBy.ts"
import * as History from "../../../services/operator/History.ts"
import * as HistorySql from "../../../services/operator/HistorySql.ts"
import { Operators } from "../../../services/operator/Operators.ts"
import { named, OperatorSessions } from "../../../services/operator/OperatorSessions.ts"
import * as OperatorStoreSql from "../../../services/operator/OperatorStoreSql.ts"
import { onRevoked, tables, userData } from "../../../services/operator/OperatorTables.ts"
import { Silences } from "../../../services/operator/Silences.ts"
import * as StoredBytes from "../../../services/operator/StoredBytes.ts"
import * as StoredBytesSql from "../../../services/operator/StoredBytesSql.ts"
import { UserRecords } from "../../../services/operator/UserRecords.ts"
import {
  duration,
  names,
  optional,
  parsed,
  type Reader,
  setting,
  tokenNames,
  tokensOrNone,
  type Values
} from "../../../services/settings/Setting.ts"
import { EngineSettings, type Extension, OwnConnections } from "../../Extension.ts"
import * as FreshTokens from "../../FreshTokens.ts"

const bytesOrOff: Reader<number | undefined> = parsed((text) => {
  if (text === "off") return undefined
  const bytes = /^\d{1,15}$/.test(text) ? Number(text) : 0
  if (bytes < 1) throw new Error("must be `off` or a number of bytes")
  return bytes
})

export const settings = {
  readTokens: setting(tokensOrNone, {
    name: "OPERATOR_READ_TOKENS",
    default: "",
    meaning: "list of bearer tokens that may read the operator interface and the metrics, and change nothing",
    secret: "tokens"
  }),
  readTokenNames: setting(names, {
    name: "OPERATOR_READ_TOKEN_NAMES",
    default: "",
    meaning: "names of those who have `OPERATOR_READ_TOKENS`, in their order (else `token-1`, …)"
  }),
  auditRetention: duration(Duration.days(1), Duration.days(3650), "must be between 1 day and 3650 days", {
    name: "AUDIT_RETENTION",
    default: "400 days",
    meaning: "how long the audit keeps what operators did, and who canceled, revoked and erased by RPC"
  }),
  // The content is what users wrote, so by default only a development service shows it.
  showsContent: setting(Config.Boolean, {
    name: "OPERATOR_CONTENT",
    default: "off",
    embedded: "on",
    meaning: "whether operators may see what tasks say: turns and tool arguments"
  }),
  session: duration(Duration.minutes(1), Duration.days(30), "must be between 1 minute and 30 days", {
    name: "OPERATOR_SESSION",
    default: "8 hours",
    meaning: "longest life of an operator's session in the console; it also ends after an hour without a request"
  }),
  storedBytes: setting(bytesOrOff, {
    name: "STORED_BYTES",
    default: "off",
    meaning:
      "bytes of requests and turns that one user may keep; counted in the background, so a user may exceed it for seconds before creates are refused with 422"
  }),
  secureCookie: optional(Config.Boolean, {
    name: "OPERATOR_SECURE_COOKIE",
    unset: "`on` in production and with an https `PUBLIC_URL`, else `off`",
    meaning:
      "whether browsers send an operator's session by HTTPS only; `off` is for a console on plain HTTP at an address other than loopback"
  })
}

const readersOf = ({ readTokenNames, readTokens }: Values<typeof settings>) =>
  named(readTokens, tokenNames(readTokenNames, readTokens.length))

/** The tokens and sessions of operators. */
const layerTokens = (values: Values<typeof settings>) =>
  Layer.unwrap(
    Effect.map(EngineSettings, ({ internalTokenNames, internalTokens, isProduction, publicUrl }) =>
      Layer.mergeAll(
        OperatorSessions.layer({
          full: named(internalTokens, internalTokenNames),
          read: readersOf(values),
          lifetime: values.session
        }),
        Layer.succeed(
          OperatorAuthorization.HasSecureCookie,
          values.secureCookie ?? (isProduction || publicUrl.startsWith("https:"))
        ),
        Layer.succeed(OperatorAuthorization.PublicOrigin, new URL(publicUrl).origin)
      ))
  )

const layer = (
  { auditRetention, showsContent, storedBytes }: Values<typeof settings>,
  freshTokens: Values<typeof FreshTokens.settings>,
  ofOperators: ReturnType<typeof layerTokens>,
  counts: ReturnType<typeof StoredBytes.make>
) =>
  Layer.unwrap(Effect.gen(function*() {
    const connections = (yield* OwnConnections).layer(2)
    return Layer.mergeAll(
      Layer.provide(HttpApiBuilder.layer(OperatorApi), Operator.layer),
      BulkRunner.layer,
      Audit.layerRetention(auditRetention),
      OperatorAuthorization.layerSessions,
      Layer.provide(History.layerRecorder, HistorySql.layer),
      Layer.provide(counts.layerWorker, StoredBytesSql.layer),
      // Without a limit nothing is counted unless someone asks.
      storedBytes === undefined ? Layer.empty : StoredBytesSql.layerPending
    ).pipe(
      Layer.provide([
        Operators.layer,
        OperatorAuthorization.layer,
        BulkActions.layer,
        Silences.layer,
        // Exports wait for slow readers, and so have the connections of operators.
        Layer.provide(UserRecords.layer, [StoredBytesSql.layer, connections])
      ]),
      Layer.provide([Audit.Audit.layer, BulkStore.layer, FreshTokens.layer(freshTokens)]),
      Layer.provide([
        Layer.provide(OperatorStoreSql.layer, connections),
        ofOperators,
        counts.layer,
        Layer.succeed(ShowsContent, showsContent)
      ])
    )
  }))

export const extension: Extension = {
  settings,
  load: (read) => {
    const values = read(settings)
    const ofOperators = layerTokens(values)
    const counts = StoredBytes.make(values.storedBytes)
    return {
      layer: layer(values, read(FreshTokens.settings), ofOperators, counts),
      createLimits: counts.limits,
      gaugeHook: counts.ask,
      operators: Layer.provide(OperatorAuthorization.layer, [ofOperators, Audit.Audit.layer]),
      taskLink: EndedBy.link,
      readers: readersOf(values)
    }
  },
  routes: {
    errorCodes,
    routes: OperatorAuthorization.sessionRoutes,
    // Browsers have the cookie of a session.
    sameOrigin: ["/internal/operator"],
    documented: { group: OperatorGroup, securitySchemes, selecting: "/internal/operator/tasks" },
    operators: true,
    auditActions: Audit.actions,
    taskField: {
      name: "ended_by",
      includes:
        "`ended_by`: `by` (`user`, `operator`, `rpc`, `core`, `time_limit`, `acceptance_timeout` or `revocation`) and `at`; null "
        + "while the task has not ended.",
      schema: TaskEndedByView
    }
  },
  tables,
  userData,
  onRevoked
}
