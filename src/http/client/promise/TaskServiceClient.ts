/** The Promise client of the public interface, for browsers and Node. Its bundle contains no server code. */
import { FilesResource } from "./FilesResource.ts"
import * as resources from "./resources.ts"
import { TasksResource } from "./TasksResource.ts"
import { type ClientOptions, Transport } from "./Transport.ts"

type Resources = {
  readonly [Name in keyof typeof resources]: (typeof resources)[Name] extends
    new(transport: Transport) => infer Resource ? Resource
    : never
}

/** The resources of extensions, such as `client.schedules`. */
// oxlint-disable-next-line typescript/no-unsafe-declaration-merging -- the constructor assigns them
export interface TaskServiceClient extends Resources {}

/**
 * ```ts
 * const client = new TaskServiceClient({ baseUrl: "https://tasks.example.com", token })
 * const task = await client.tasks.run(
 *   { assistant_id: 1, input: [{ type: "text", text: "What is the weather in Oslo?" }] },
 *   { tools: { weather: async ({ city }) => lookUp(city) } }
 * )
 * ```
 */
export class TaskServiceClient {
  readonly tasks: TasksResource
  readonly files: FilesResource

  constructor(options: ClientOptions) {
    const transport = new Transport(options)
    this.tasks = new TasksResource(transport)
    this.files = new FilesResource(transport)
    for (const [name, Resource] of Object.entries(resources)) Object.assign(this, { [name]: new Resource(transport) })
  }
}
