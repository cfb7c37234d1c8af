/** Fields of schemas with their descriptions. */
import { Schema } from "effect"
import { Count, Moment } from "./TaskSchemas.ts"

export const described = <S extends Schema.Top>(schema: S, description: string) => schema.annotateKey({ description })
export const text = (description: string) => described(Schema.String, description)
export const textOrNull = (description: string) => described(Schema.NullOr(Schema.String), description)
export const count = (description: string) => described(Count, description)
export const moment = (description: string) => described(Moment, description)
export const momentOrNull = (description: string) => described(Schema.NullOr(Moment), description)
