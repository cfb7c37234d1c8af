import { describe } from "vitest"
import { compare } from "./compare.ts"
import { effectTypes } from "./types.ts"

describe("golden files", () => {
  compare("the declarations of the Effect clients and of the test kit", effectTypes)
})
