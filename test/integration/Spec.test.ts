/** The specification's tables, typed by hand, against a node on Postgres. */
import { answers } from "../spec/answers.ts"
import { errors } from "../spec/errors.ts"
import { limits } from "../spec/limits.ts"
import { node } from "../spec/node.ts"
import { transitions } from "../spec/transitions.ts"

transitions(node)
errors(node)
limits(node)
answers(node)
