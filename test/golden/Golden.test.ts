/** What others read or generate from stays as it is, byte for byte, unless a change says otherwise. */
import { describe } from "vitest"
import { compare } from "./compare.ts"
import { documents } from "./documents.ts"
import { help } from "./help.ts"
import { transcripts } from "./rpc.ts"
import { promiseTypes } from "./types.ts"

describe("golden files", () => {
  compare("both OpenAPI documents", documents)
  compare("the help texts of all commands", help)
  compare("requests and responses of RPC", transcripts)
  compare("the declarations of the Promise client", promiseTypes)
})
