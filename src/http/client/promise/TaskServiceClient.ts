/** The Promise client of the public interface, for browsers and Node. Its bundle contains no server code. */
import { FilesResource } from "./FilesResource.ts"
import { SchedulesResource } from "./SchedulesResource.ts"
import { TasksResource } from "./TasksResource.ts"
import { type ClientOptions, Transport } from "./Transport.ts"
import { UsageResource } from "./UsageResource.ts"

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
  readonly schedules: SchedulesResource
  readonly usage: UsageResource

  constructor(options: ClientOptions) {
    const transport = new Transport(options)
    this.tasks = new TasksResource(transport)
    this.files = new FilesResource(transport)
    this.schedules = new SchedulesResource(transport)
    this.usage = new UsageResource(transport)
  }
}
