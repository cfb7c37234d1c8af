/** The assistants of models: those of ASSISTANTS_FILE, or one for OPENAI_BASE_URL. */
import type { Endpoint } from "./OpenAiModel.ts"

export interface Assistant {
  readonly id: number
  readonly name: string
  readonly instructions: string
  /** The first one is the default. */
  readonly models: ReadonlyMap<number, Endpoint>
  readonly imageGenerators: ReadonlyMap<number, Endpoint>
  readonly maxRounds: number
}

export type Assistants = ReadonlyMap<number, Assistant>

export const defaultRounds = 24

/** The configuration with that id. A missing or unknown id silently selects the first one, which is the default. */
export const pick = (all: ReadonlyMap<number, Endpoint>, id: number | undefined): Endpoint | undefined =>
  (id === undefined ? undefined : all.get(id)) ?? all.values().next().value

/** The assistants without a file: one if a model is configured, otherwise none. */
export const general = (id: number, endpoint: Endpoint | undefined): Assistants =>
  new Map(
    endpoint === undefined ? [] : [[id, {
      id,
      name: "General assistant",
      instructions:
        "You work in the background, where nobody can answer a question. Do the user's task as fully as it needs.",
      models: new Map([[1, endpoint]]),
      imageGenerators: new Map(),
      maxRounds: defaultRounds
    }]]
  )
