/** The package for cores in Python, as a process, with the service. */
import { authorCore } from "../kit/cores/authorCore.ts"

authorCore("author.py")
