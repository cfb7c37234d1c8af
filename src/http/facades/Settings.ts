/** The settings that the façades share. */
import { Config, Context, Duration } from "effect"
import * as Limits from "../../domain/Limits.ts"
import * as Setting from "../../services/settings/Setting.ts"

/** The assistant and models that a model's name selects. */
export interface FacadeModel {
  readonly assistantId: number
  readonly llmModelId: number | null
  readonly imageGeneratorId: number | null
}

const names = ["openai", "mcp", "a2a"]

const servedOf = (text: string): ReadonlySet<string> => {
  const given = Setting.commaList(text)
  if (given.join() === "off") return new Set()
  if (given.length === 0 || !given.every((name) => names.includes(name))) {
    throw new Error(`must be off, or a list of ${names.join(", ")}`)
  }
  return new Set(given)
}

const modelPattern = /^([^=\s]{1,64})=([1-9]\d{0,14})(?::([1-9]\d{0,14})(?::([1-9]\d{0,14}))?)?$/

const idOrNull = (text: string | undefined) => text === undefined ? null : Number(text)

const entryOf = (item: string): readonly [string, FacadeModel] => {
  const [, name, assistant, llm, image] = modelPattern.exec(item) ?? []
  if (name === undefined) throw new Error(`${item} is no model as in gpt-5=1 or analyst=20:2`)
  return [name, { assistantId: Number(assistant), llmModelId: idOrNull(llm), imageGeneratorId: idOrNull(image) }]
}

const seconds: Setting.Reader<number> = (name) => Config.map(Config.Duration(name), Duration.toSeconds)

export const settings = {
  served: Setting.setting(Setting.parsed(servedOf), {
    name: "FACADES",
    default: "openai,mcp,a2a",
    inProduction: "off",
    meaning:
      "comma-separated list of the protocols of other systems that are served: `openai` (the Responses API at `/v1`), `mcp` (the Model Context Protocol at `/mcp`), `a2a` (the Agent2Agent protocol at `/a2a`); or `off`"
  }),
  models: Setting.setting(Setting.parsed((text) => new Map(Setting.commaList(text).map(entryOf))), {
    name: "FACADE_MODELS",
    default: "",
    meaning:
      "comma-separated list of models as `name=assistant[:llm_model[:image_generator]]`, by their ids; `assistant-7` and `7` always mean assistant 7"
  }),
  /** Ignores request fields that would change the result and are not supported. Otherwise they are refused. */
  isLenient: Setting.setting(Config.Boolean, {
    name: "FACADE_LENIENT",
    default: "false",
    meaning: "`true`: a façade ignores request fields that it does not support and that would change the result"
  }),
  /** True if a text that was reported is the beginning of each later one. */
  onlyAppends: Setting.setting(Config.Boolean, {
    name: "FACADE_LIVE_TEXT",
    default: "false",
    meaning:
      "`true`: the core only ever adds to the text of a run (the built-in one replaces it), so streams of the OpenAI façade send it while it grows"
  }),
  /**
   * Seconds; the default `max_execution_time` of tasks that a façade creates. It is shorter than the limit of other tasks, because
   * an abandoned tool call occupies one of the user's slots.
   */
  timeLimit: Setting.setting(
    Setting.checked(
      seconds,
      (limit) => Number.isInteger(limit) && limit >= 1 && limit <= Limits.maxExecutionTime,
      `must be whole seconds between 1 and ${Limits.maxExecutionTime}`
    ),
    {
      name: "FACADE_TIME_LIMIT",
      default: "1 hour",
      meaning: "default time limit of tasks that a façade creates",
      bounds: ["1 second", `${Limits.maxExecutionTime} seconds`]
    }
  )
}

export class FacadeSettings extends Context.Service<FacadeSettings, Setting.Values<typeof settings>>()(
  "async-task-service/http/facades/Settings/FacadeSettings"
) {}

/** The model of a name: a configured one, or an assistant by its id, as in `assistant-7` and `7`. */
export const modelOf = (models: ReadonlyMap<string, FacadeModel>, name: string): FacadeModel | undefined => {
  const [, id] = /^(?:assistant-)?([1-9]\d{0,14})$/.exec(name) ?? []
  return models.get(name)
    ?? (id === undefined ? undefined : { assistantId: Number(id), llmModelId: null, imageGeneratorId: null })
}
