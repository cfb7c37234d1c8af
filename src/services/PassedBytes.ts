/** Is told how many bytes of files stream through, for a runtime whose collector does not notice buffers in time. */
import { Context } from "effect"

export const PassedBytes = Context.Reference<(count: number) => void>("async-task-service/services/PassedBytes", {
  defaultValue: () => () => {}
})
