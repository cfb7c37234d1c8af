/** Labels by which the console links tasks: a reply continues a task, and a task that is run again repeats one. */
import type { Task } from "../client/promise/Types.ts"

export type Relation = "continues" | "repeats"

type Labels = Readonly<Record<string, string>>

/** The service's limit of labels. */
const maxLabels = 16

const isUuid = (text: string | undefined): text is string => text !== undefined && /^[0-9a-f-]{36}$/.test(text)

/** The labels that are not links. */
export const ownLabels = ({ continues, repeats, ...labels }: Labels): Labels => ({
  ...labels,
  ...(continues === undefined || isUuid(continues) ? {} : { continues }),
  ...(repeats === undefined || isUuid(repeats) ? {} : { repeats })
})

/** The labels of a task that is made from another one. Without room there is no link. */
export const linked = (labels: Labels | null | undefined, relation: Relation, uuid: string): Labels => {
  const own = ownLabels(labels ?? {})
  return Object.keys(own).length >= maxLabels || relation in own ? own : { ...own, [relation]: uuid }
}

/** Tasks to which one is related, each with its words. */
export const relatedTo = ({ metadata = {} }: Pick<Task, "metadata">) => {
  const words = [["continues", "Continues"], ["repeats", "Runs again"]] as const
  return words.flatMap(([relation, word]) => {
    const uuid = metadata[relation]
    return isUuid(uuid) ? [{ word, uuid }] : []
  })
}
