/** The specification's tables against the test kit; `integration/Spec.test.ts` runs them against a node on Postgres. */
import { answers } from "./spec/answers.ts"
import { errors } from "./spec/errors.ts"
import { kit } from "./spec/kit.ts"
import { limits } from "./spec/limits.ts"
import { transitions } from "./spec/transitions.ts"

transitions(kit)
errors(kit)
limits(kit)
answers(kit)
