/** What extensions change in the transaction of a revocation. */
import { Context } from "effect"
import type { Revocation } from "../../../domain/Revocation.ts"

interface Statement {
  readonly text: string
  readonly values: ReadonlyArray<unknown>
}

export const RevocationHooks = Context.Reference<
  ReadonlyArray<(revocation: Revocation) => ReadonlyArray<Statement>>
>("async-task-service/services/store/revocations/RevocationHooks", { defaultValue: () => [] })
