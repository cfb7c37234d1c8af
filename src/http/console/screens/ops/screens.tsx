/** The screens of operators. */
import type { Screens } from "../../components/Parts.tsx"
import * as Router from "../../Router.ts"
import { OpsAudit } from "./Audit.tsx"
import { OpsBulk, OpsBulkList } from "./Bulk.tsx"
import { OpsCluster } from "./Cluster.tsx"
import { OpsErrors } from "./Errors.tsx"
import { Overview } from "./Overview.tsx"
import { OpsQueue } from "./Queue.tsx"
import { OpsRevocations } from "./Revocations.tsx"
import { OpsStuck } from "./Stuck.tsx"
import { OpsTask } from "./Task.tsx"
import { Tasks } from "./Tasks.tsx"
import { OpsUser } from "./User.tsx"
import { OpsWebhooks } from "./Webhooks.tsx"

export const screens: Screens = [
  [/^\/ops$/, () => <Overview />],
  [/^\/ops\/tasks$/, () => <Tasks key={Router.query.value.toString()} />],
  [/^\/ops\/tasks\/([^/]+)$/, (uuid) => <OpsTask key={uuid} uuid={uuid} />],
  [/^\/ops\/errors$/, () => <OpsErrors key={Router.query.value.toString()} />],
  [/^\/ops\/stuck$/, () => <OpsStuck />],
  [/^\/ops\/webhooks$/, () => <OpsWebhooks key={Router.query.value.toString()} />],
  [/^\/ops\/queue$/, () => <OpsQueue />],
  [/^\/ops\/cluster$/, () => <OpsCluster />],
  [/^\/ops\/bulk$/, () => <OpsBulkList />],
  [/^\/ops\/bulk\/([^/]+)$/, (id) => <OpsBulk key={id} id={id} />],
  [/^\/ops\/users\/([^/]+)$/, (sub) => <OpsUser key={sub} sub={decodeURIComponent(sub)} />],
  [/^\/ops\/audit$/, () => <OpsAudit key={Router.query.value.toString()} />],
  [/^\/ops\/revocations$/, () => <OpsRevocations key={Router.query.value.toString()} />]
]
