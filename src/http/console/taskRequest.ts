/** The request of a task, where the service returns it. */
import { field, isFields, listField, textField } from "./json.ts"

const none: Readonly<Record<string, unknown>> = {}

const byRequest = new WeakMap<object, Readonly<Record<string, unknown>>>()

/** The output schemas of a task's client tools, by name. */
export const schemasOf = (task: object): Readonly<Record<string, unknown>> => {
  const request = field(task, "request")
  if (!isFields(request)) return none
  const known = byRequest.get(request)
  if (known !== undefined) return known
  const schemas = Object.fromEntries(
    listField(request, "client_tools").flatMap((tool) => {
      const name = textField(tool, "name")
      const schema = field(tool, "output_schema") ?? field(tool, "outputSchema")
      return name === undefined || schema === undefined ? [] : [[name, schema]]
    })
  )
  byRequest.set(request, schemas)
  return schemas
}
