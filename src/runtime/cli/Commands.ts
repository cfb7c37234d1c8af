import * as ClusterCommands from "./ClusterCommands.ts"
import * as ConformanceCommand from "./ConformanceCommand.ts"
import * as DeliveryCommands from "./DeliveryCommands.ts"
import * as DemoCommand from "./DemoCommand.ts"
import * as OperatorCommands from "./OperatorCommands.ts"
import * as OperatorGroups from "./OperatorGroups.ts"
import * as TaskCommands from "./TaskCommands.ts"
import * as UploadCommand from "./UploadCommand.ts"

/** All commands, in the order of the help text. */
export const commands = [
  ...OperatorCommands.commands,
  ...TaskCommands.commands,
  UploadCommand.command,
  ConformanceCommand.command,
  DemoCommand.command,
  ...DeliveryCommands.commands,
  ...ClusterCommands.commands,
  ...OperatorGroups.commands
] as const
