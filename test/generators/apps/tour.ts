/** The parts of the tour that need no generated code. */

/** A small file to upload. */
export const note = new File(["The meeting is on Tuesday."], "notes.txt", { type: "text/plain" })

/** Reads a task until it is interrupted or has ended. */
export const settled = async <Task extends { readonly status: string }>(read: () => Promise<Task>): Promise<Task> => {
  const task = await read()
  return task.status === "pending" || task.status === "processing" ? settled(read) : task
}

export const weather = {
  type: "function" as const,
  name: "weather",
  parameters: { type: "object", properties: { city: { type: "string" } } }
}

/** Runs the tool of a call. */
export const toolResult = (
  { arguments: args, id }: { readonly id: string; readonly arguments: { readonly [name: string]: unknown } }
) => ({ tool_call_id: id, output: { sky: "clear", city: args["city"] } })

/** The observations of each tour, which `main.ts` checks. */
export interface Found {
  readonly uploaded: string
  readonly called: ReadonlyArray<string> | undefined
  readonly text: string | undefined
  readonly events: ReadonlyArray<string> | null
  readonly completed: number
  readonly completedOrFailed: number
  readonly missing: string | undefined
}

export const report = (found: Found) => console.log(JSON.stringify(found))
