import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import * as TaskRepositorySql from "../../src/services/sql/TaskRepositorySql.ts"
import * as Database from "../kit/Database.ts"
import { contract } from "../kit/TaskRepositoryContract.ts"

layer(Layer.mergeAll(TaskRepositorySql.layer.pipe(Layer.provide(Database.layer)), SecureRandom.layerWebCrypto))(
  "TaskRepository on Postgres",
  contract
)
