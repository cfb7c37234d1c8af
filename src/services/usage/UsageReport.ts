/** The usage that the turn of an event reports, as it is stored with the event. */
import { Schema } from "effect"
import { read, shape, Tokens, type TurnUsage } from "../../domain/Usage.ts"
import type { TurnReport } from "../Extensions.ts"

const Report = Schema.fromJsonString(
  Schema.Struct({ model: Schema.optionalKey(Schema.String), tokens: Schema.optionalKey(Tokens) })
)
const decode = Schema.decodeSync(Report)

/** Without fields that are null, so that SQL finds what there is. */
export const encodeReport = (reported: TurnUsage | null): string | null =>
  reported && JSON.stringify({ model: reported.model ?? undefined, tokens: reported.tokens ?? undefined })

export const decodeReport = (report: string | null) => report === null ? null : decode(report)

export const turnReport: TurnReport = { shape, read: (turn, bytes) => encodeReport(read(turn, bytes)) }
