/** The screens of one task: what it asks, a new one, and the task itself. */
import type { Screens } from "../../components/Parts.tsx"
import * as Router from "../../Router.ts"
import { Inbox } from "../Inbox.tsx"
import { NewTask } from "../NewTask.tsx"
import { TaskScreen } from "../TaskScreen.tsx"

export const screens: Screens = [
  [/^\/inbox$/, () => <Inbox />],
  [/^\/new$/, () => <NewTask key={Router.query.value.toString()} />],
  [/^\/tasks\/([^/]+)$/, (uuid) => <TaskScreen key={uuid} uuid={uuid} />]
]
