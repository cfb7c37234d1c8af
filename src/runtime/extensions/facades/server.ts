/** The settings and the store of legs that façades share. A façade is an extension of its own. */
import { Layer } from "effect"
import { settings } from "../../../http/facades/Settings.ts"
import * as FacadeLegsSql from "../../../services/facades/FacadeLegsSql.ts"
import * as UnstoredTasks from "../../../services/facades/UnstoredTasks.ts"
import type { Extension } from "../../Extension.ts"

export const extension: Extension = {
  settings,
  // The deletions are due also while no façade is on.
  load: () => ({ layer: Layer.provide(UnstoredTasks.layer, FacadeLegsSql.layer) }),
  routes: {},
  tables: FacadeLegsSql.tables,
  userData: FacadeLegsSql.userData
}
