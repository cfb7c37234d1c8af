/**
 * A callback for the bytes of file content that stream through. The runtime uses it to collect buffers early enough.
 */
import { Context } from "effect"

export const PassedBytes = Context.Reference<(count: number) => void>(
  "async-task-service/services/limits/PassedBytes",
  {
    defaultValue: () => () => {}
  }
)
