/** The client's types equal those of the service's schemas. `npm run check:types` reports a difference. */
import { describe, expectTypeOf, it } from "vitest"
import type { CreateTaskBody } from "../../../../src/domain/TaskRequest.ts"
import type { RerunBody } from "../../../../src/domain/TaskRerun.ts"
import type { ToolCall, ToolResult } from "../../../../src/domain/ToolCall.ts"
import type { TaskPageBody } from "../../../../src/http/client/promise/TaskPages.ts"
import type * as Client from "../../../../src/http/client/promise/Types.ts"
import type { StorageBaseView, UploadedFileView } from "../../../../src/http/contract/FileSchemas.ts"
import type * as Schemas from "../../../../src/http/contract/TaskSchemas.ts"

describe("the types of the Promise client", () => {
  it("equal those of requests", () => {
    type Body = typeof CreateTaskBody.Encoded
    // A JSON Schema is any object, whether or not its type has an index signature.
    expectTypeOf<Omit<Client.CreateTask, "client_tools">>().toEqualTypeOf<Omit<Body, "client_tools">>()
    expectTypeOf<Body>().toExtend<Client.CreateTask>()
    // `turns: [task.turn]` continues a conversation.
    expectTypeOf<Client.Turn>().toExtend<Client.JsonObject>()
    expectTypeOf<typeof RerunBody.Encoded>().toExtend<Client.RerunTask>()
    expectTypeOf<keyof typeof RerunBody.Encoded>().toEqualTypeOf<keyof Client.RerunTask>()
    expectTypeOf<Client.ToolResult>().toEqualTypeOf<typeof ToolResult.Encoded>()
  })

  it("tell the items of an output apart by their type", () => {
    const textOf = (item: Client.OutputItem) => item.type === "text" ? item.text : item.file
    expectTypeOf(textOf).returns.toEqualTypeOf<string | Client.OutputFile>()
  })

  it("equal those of responses", () => {
    // Extensions add fields.
    expectTypeOf<Pick<Client.Task, keyof typeof Schemas.TaskView.Type>>().toEqualTypeOf<typeof Schemas.TaskView.Type>()
    expectTypeOf<Client.ToolCall>().toEqualTypeOf<ToolCall>()
    expectTypeOf<TaskPageBody>().toEqualTypeOf<typeof Schemas.TaskPageView.Type>()
    expectTypeOf<Client.TaskEvent>().toEqualTypeOf<typeof Schemas.WatchedEventView.Type>()
    expectTypeOf<Client.CreatedTask>().toEqualTypeOf<typeof Schemas.CreatedTaskView.Type>()
    expectTypeOf<Client.ResumedTask>().toEqualTypeOf<typeof Schemas.ResumedTaskView.Type>()
    expectTypeOf<Client.CanceledTask>().toEqualTypeOf<typeof Schemas.CanceledTaskView.Type>()
    expectTypeOf<Client.CanceledTasks>().toEqualTypeOf<typeof Schemas.CanceledTasksView.Type>()
    expectTypeOf<Client.Delivery>().toEqualTypeOf<typeof Schemas.DeliveryView.Type>()
    expectTypeOf<Client.UploadedFile>().toEqualTypeOf<typeof UploadedFileView.Type>()
    expectTypeOf<Client.StorageBase>().toEqualTypeOf<typeof StorageBaseView.Type>()
  })
})
