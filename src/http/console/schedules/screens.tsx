/** The screens of schedules. */
import type { Screens } from "../components/Parts.tsx"
import * as Router from "../Router.ts"
import { OpsSchedules } from "./OpsSchedules.tsx"
import { EditSchedule, NewSchedule } from "./ScheduleForm.tsx"
import { Schedules } from "./Schedules.tsx"
import { ScheduleScreen } from "./ScheduleScreen.tsx"

export const screens: Screens = [
  [/^\/schedules$/, () => <Schedules />],
  [/^\/schedules\/new$/, () => <NewSchedule />],
  [/^\/schedules\/([^/]+)\/edit$/, (id) => <EditSchedule key={id} id={id} />],
  [/^\/schedules\/([^/]+)$/, (id) => <ScheduleScreen key={id} id={id} />],
  [/^\/ops\/schedules$/, () => <OpsSchedules key={Router.query.value.toString()} />]
]
