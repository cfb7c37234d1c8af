/** Settings of the façades: protocols of other systems, whose clients work with this service unchanged. */
import { Context } from "effect"

/** The assistant and models that a model's name selects. */
export interface FacadeModel {
  readonly assistantId: number
  readonly llmModelId: number | null
  readonly imageGeneratorId: number | null
}

/** Seconds; shorter than the limit of other tasks, because an abandoned tool call occupies one of the user's slots. */
export const defaultTimeLimit = 3600

export const Facades = Context.Reference<{
  readonly openai: boolean
  readonly models: ReadonlyMap<string, FacadeModel>
  /** Ignores request fields that would change the result and are not supported. Otherwise they are refused. */
  readonly isLenient: boolean
  /** Seconds; the default `max_execution_time` of tasks that a façade creates. */
  readonly timeLimit: number
}>("async-task-service/http/facades/Facades", {
  defaultValue: () => ({ openai: false, models: new Map(), isLenient: false, timeLimit: defaultTimeLimit })
})

/** The model of a name: a configured one, or an assistant by its id, as in `assistant-7` and `7`. */
export const modelOf = (models: ReadonlyMap<string, FacadeModel>, name: string): FacadeModel | undefined => {
  const [, id] = /^(?:assistant-)?([1-9]\d{0,14})$/.exec(name) ?? []
  return models.get(name)
    ?? (id === undefined ? undefined : { assistantId: Number(id), llmModelId: null, imageGeneratorId: null })
}
