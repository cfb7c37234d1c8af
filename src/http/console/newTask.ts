/** The form of a new task: its request body, and the fields to which the service's errors belong. */
import type { CreateTask, InputItem, Task } from "../client/promise/Types.ts"
import { errorsByField, type FieldErrors as ErrorsOf, formWith, integerIn, integerProblems, textsOf } from "./forms.ts"
import { parse } from "./json.ts"
import { ownLabels } from "./related.ts"

/** The fields below "More options". */
export const moreFields = [
  "metadata",
  "after",
  "client_tools",
  "llm_model_id",
  "image_generator_id",
  "callback_url",
  "callback_secret",
  "max_execution_time"
] as const

const names = ["assistant_id", "text", ...moreFields] as const

/** Labels are one a line, as in `project: x`; `after` is the uuid of a task whose conversation goes on. */
export type TaskForm = Readonly<Record<typeof names[number], string>>

export type FieldName = keyof TaskForm | "files" | "voice"

export type FieldErrors = ErrorsOf<FieldName>

export const emptyForm = formWith(names)

export const toolTemplate = JSON.stringify(
  [{
    type: "function",
    name: "approve_refund",
    description: "Asks a person to approve a refund",
    parameters: {
      type: "object",
      properties: { order: { type: "string" }, amount: { type: "number" } },
      required: ["order"]
    }
  }],
  null,
  2
)

const integers = ["assistant_id", "llm_model_id", "image_generator_id", "max_execution_time"] as const

const toolsOf = (text: string): CreateTask["client_tools"] | string => {
  const tools = parse(text)?.value
  return Array.isArray(tools) ? tools : "This is not a JSON array"
}

/** The pairs of the labels; undefined if a line is none. */
const pairsOf = (text: string): Readonly<Record<string, string>> | undefined => {
  const lines = text.split("\n").filter((line) => line.trim() !== "")
  const pairs = lines.map((line) => /^([^:]+):(.*)$/.exec(line)?.slice(1).map((part) => part.trim()) ?? [])
  return pairs.every(([key = "", value = ""]) => key !== "" && value !== "") ? Object.fromEntries(pairs) : undefined
}

/** The problems that the console finds without the service. */
const problemsOf = (form: TaskForm, items: number): FieldErrors => {
  const problems: Partial<Record<FieldName, string>> = integerProblems(form, integers)
  if (form.assistant_id.trim() === "") problems.assistant_id = "Must be given"
  if (form.text.trim() === "" && items === 0) problems.text = "Type something, or add a file"
  if (pairsOf(form.metadata) === undefined) problems.metadata = "Write each as key: value"
  if (form.client_tools.trim() !== "" && typeof toolsOf(form.client_tools) === "string") {
    problems.client_tools = "This is not a JSON array"
  }
  return problems
}

/** The fields of an earlier request that the form does not show, as they were. */
export type Carried = Partial<Omit<CreateTask, "input" | Exclude<keyof TaskForm, "metadata">>>

/** That a user may give. An internal caller may have given the earlier task a higher one. */
const highestPriority = 5

export const nothingCarried: Carried = {}

const isEmpty = (value: unknown) => typeof value === "object" && Object.keys(value ?? {}).length === 0

type StoredRequest = NonNullable<Task["request"]>

/** The form of an earlier request, with its files. The service does not return the callback secret. */
export const formOf = ({ input, ...stored }: StoredRequest) => {
  const labels = ownLabels(stored.metadata ?? {})
  const isPlain = Object.entries(labels).every(([key, value]) =>
    !/[\n:]/.test(key) && !value.includes("\n") && key.trim() === key && value.trim() === value
  )
  const number = (value: number | null | undefined) => value == null ? "" : String(value)
  const form: TaskForm = {
    ...emptyForm,
    assistant_id: String(stored.assistant_id),
    text: textsOf(input),
    llm_model_id: number(stored.llm_model_id),
    image_generator_id: number(stored.image_generator_id),
    client_tools: stored.client_tools.length === 0 ? "" : JSON.stringify(stored.client_tools, null, 2),
    metadata: isPlain ? Object.entries(labels).map(([key, value]) => `${key}: ${value}`).join("\n") : "",
    callback_url: stored.callback_url ?? "",
    max_execution_time: number(stored.max_execution_time)
  }
  const others = Object.entries(stored).filter(([name, value]) =>
    (!(name in emptyForm) || (name === "metadata" && !isPlain)) && !isEmpty(value)
  )
  const carried: Carried = {
    ...Object.fromEntries(others),
    ...(isPlain ? {} : { metadata: labels }),
    ...(stored.priority > highestPriority ? { priority: highestPriority } : {})
  }
  return { form, carried, items: input.filter(({ type }) => type !== "text") }
}

/** The body of the request. `turn` is that of the earlier task, and replaces an earlier conversation. */
export const bodyOf = (
  form: TaskForm,
  uploaded: ReadonlyArray<InputItem>,
  turn: unknown,
  carried: Carried
): { readonly body: CreateTask } | { readonly problems: FieldErrors } => {
  const problems = problemsOf(form, uploaded.length)
  if (Object.keys(problems).length > 0) return { problems }
  const text: ReadonlyArray<InputItem> = form.text.trim() === "" ? [] : [{ type: "text", text: form.text }]
  const tools = form.client_tools.trim() === "" ? undefined : toolsOf(form.client_tools)
  const labels = pairsOf(form.metadata) ?? {}
  const optional = {
    ...carried,
    metadata: isEmpty(labels) ? carried.metadata : labels,
    llm_model_id: integerIn(form.llm_model_id),
    image_generator_id: integerIn(form.image_generator_id),
    max_execution_time: integerIn(form.max_execution_time),
    client_tools: typeof tools === "string" ? undefined : tools,
    callback_url: form.callback_url.trim() || undefined,
    callback_secret: form.callback_secret || undefined,
    turns: turn === undefined || turn === null ? carried.turns : [turn]
  }
  const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined))
  return { body: { assistant_id: integerIn(form.assistant_id) ?? 0, input: [...text, ...uploaded], ...given } }
}

/** The field of the form to which a dotted path of the service's answer belongs. */
const fieldAt = (path: string, body: CreateTask): FieldName => {
  const [first = "", index = ""] = path.split(".")
  if (first === "turns") return "after"
  if (first === "input") {
    const type = body.input[Number(index)]?.type
    return type === "file" ? "files" : type === "voice" ? "voice" : "text"
  }
  return names.find((name) => name === first) ?? "text"
}

/** The service's messages by the fields of the form. */
export const fieldErrors = (errors: Readonly<Record<string, ReadonlyArray<string>>>, body: CreateTask): FieldErrors =>
  errorsByField(errors, (path) => fieldAt(path, body))
