/** The models of the façade: names of `FACADE_MODELS`, or assistants by their ids. */
import { Effect } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { modelNotFound } from "./Errors.ts"
import { FacadeSettings, modelOf } from "./Settings.ts"

/** Names that a refusal mentions. */
const mentioned = 20

export const make = Effect.gen(function*() {
  const { models } = yield* FacadeSettings
  const backend = yield* AssistantBackend

  /** The names that the settings give, or else one for each assistant that the backend lists. */
  const list = ({ token }: Caller) =>
    models.size > 0
      ? Effect.succeed([...models.keys()])
      : Effect.map(backend.assistants(token), (all) => all.map(({ id }) => `assistant-${id}`))

  const find = Effect.fnUntraced(function*(caller: Caller, name: string) {
    const model = modelOf(models, name)
    if (model !== undefined) return model
    const known = yield* Effect.orElseSucceed(list(caller), () => [])
    return yield* modelNotFound(name.slice(0, 64), known.slice(0, mentioned))
  })

  return { find, list }
})
