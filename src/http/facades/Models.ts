/** The models of the façades: names of `FACADE_MODELS`, or assistants by their ids. */
import { Effect, Schema } from "effect"
import type { Caller } from "../../domain/Principal.ts"
import { AssistantBackend } from "../../services/files/AssistantBackend.ts"
import { FacadeSettings, modelOf } from "./Settings.ts"

/** Names that a refusal mentions. */
const mentioned = 20

export class ModelNotFound extends Schema.TaggedError<ModelNotFound>()("ModelNotFound", { message: Schema.String }) {}

const notFound = (name: string, known: ReadonlyArray<string>): ModelNotFound => {
  const names = known.length === 0 ? "assistant-N means assistant N" : `Known models: ${known.join(", ")}`
  const way = "The setting FACADE_MODELS names assistants as models, as in FACADE_MODELS=gpt-5=1."
  return new ModelNotFound({ message: `The model '${name}' does not exist. ${names}. ${way}` })
}

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
    return yield* notFound(name.slice(0, 64), known.slice(0, mentioned))
  })

  return { find, list }
})
